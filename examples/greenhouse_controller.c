/* The greenhouse of own_environment.py run by an exported policy, in C.

    nesht export runs/greenhouse --format c --out greenhouse.h
    cc -O2 -I . -o greenhouse examples/greenhouse_controller.c -lm
    echo "0.8 -0.2 0.1" | ./greenhouse
*/
#include <stdio.h>

#include "greenhouse.h"

int main(void) {
    float input[GREENHOUSE_INPUTS], action[GREENHOUSE_ACTIONS];
    float temperature, humidity, sunshine;
    while (scanf("%f %f %f", &temperature, &humidity, &sunshine) == 3) {
        input[GREENHOUSE_INPUT_TEMPERATURE_ERROR] = temperature;
        input[GREENHOUSE_INPUT_HUMIDITY_ERROR] = humidity;
        input[GREENHOUSE_INPUT_SUNSHINE] = sunshine;
        greenhouse_act(input, action);
        printf("%.4f %.4f\n", action[0], action[1]);
    }
    return 0;
}

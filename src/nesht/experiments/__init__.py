"""The paper's tables and figures as declared sets of runs, with honest statistics."""

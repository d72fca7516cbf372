"""What a run found, for people: feature reports, tables and pictures, from files alone."""

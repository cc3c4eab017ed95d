"""The data stage: an official data root becomes checked Parquet tables."""

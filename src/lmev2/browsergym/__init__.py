"""Raw BrowserGym runs become trajectories of a data root."""

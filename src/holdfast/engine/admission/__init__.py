"""When a service may start: dependencies, awaited lines, the host's capacity."""

"""The one application service: identifies callers, permits commands, calls handlers."""

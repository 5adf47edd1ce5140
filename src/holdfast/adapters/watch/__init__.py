"""Reports changes of files, for services that watch some."""

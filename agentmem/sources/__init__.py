"""Where knowledge comes from: files, pages, the web, other systems."""

"""What goes into a prompt: messages, block, fill, injection, stripping, citations. Pure."""

"""MemoryManager and its async face: the only room that wires the others."""

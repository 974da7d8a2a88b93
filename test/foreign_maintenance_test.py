"""Others look after a clustered table: afterwards status and cubes are right, and say whether the cube map was rebuilt."""

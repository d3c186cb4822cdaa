"""Files, strict YAML, validation, units, formatting and input errors."""

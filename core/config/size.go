package config

import "github.com/mooncake-go/mooncake/core/config/internal/value"

// ParseSize reads a size as the file takes it: "4GB", "1.5 GiB", "16777216". The error
// says what is allowed.
func ParseSize(text string) (Size, error) { return value.ParseSize(text) }

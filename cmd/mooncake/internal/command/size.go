package command

import "github.com/mooncake-go/mooncake/core/config"

// Size is the pflag.Value of a size such as 1MiB.
type Size config.Size

// String implements pflag.Value.
func (s *Size) String() string { return config.Size(*s).String() }

// Type implements pflag.Value.
func (s *Size) Type() string { return "size" }

// Set implements pflag.Value.
func (s *Size) Set(text string) error {
	v, err := config.ParseSize(text)
	*s = Size(v)
	return err
}

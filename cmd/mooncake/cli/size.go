package cli

import "github.com/mooncake-go/mooncake/core/config"

// sizeFlag is a flag that takes a size such as 1MiB.
type sizeFlag config.Size

// String implements pflag.Value.
func (s *sizeFlag) String() string { return config.Size(*s).String() }

// Type implements pflag.Value.
func (s *sizeFlag) Type() string { return "size" }

// Set implements pflag.Value.
func (s *sizeFlag) Set(text string) error {
	v, err := config.ParseSize(text)
	*s = sizeFlag(v)
	return err
}

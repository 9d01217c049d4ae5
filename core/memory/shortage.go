package memory

import (
	"fmt"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Shortage says that memory of one kind does not suffice. It is in the chain of an
// InvalidParams, for errors.As; its text and the error's hint name the numbers and the
// command that would change them.
type Shortage struct {
	// Kind is what there is too little of, as a noun: "memory", "huge pages of 2MB".
	Kind string
	// Need and Have are in bytes.
	Need, Have uint64
	// Run is the command that provides what is missing, empty where there is none.
	Run string

	text string
}

// Error implements error.
func (s *Shortage) Error() string { return s.text }

// Missing returns the number of bytes that are missing.
func (s *Shortage) Missing() uint64 {
	if s.Need < s.Have {
		return 0
	}
	return s.Need - s.Have
}

func (s *Shortage) error(hint string) error {
	if s.Run != "" {
		hint = fmt.Sprintf("run as root: %s; or %s", s.Run, hint)
	}
	return errs.WithHint(errs.Wrap(errs.InvalidParams, "memory: allocate", s), "%s", hint)
}

package calls

import (
	"fmt"

	"github.com/mooncake-go/mooncake/core/api/upstream/structpack"
)

// Shape describes the type of a message for a log: the hash, and the fields if the message has the
// literal of its type.
func Shape(body []byte) string {
	m, err := structpack.Open(body)
	switch {
	case err != nil:
		return err.Error()
	case m.Literal == nil:
		return fmt.Sprintf("hash %08x", m.Hash)
	}
	return fmt.Sprintf("hash %08x, %s", m.Hash, structpack.Notation(m.Literal))
}

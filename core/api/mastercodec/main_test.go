package mastercodec

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tags of fields 1 to 5 with a length, and of field 2 with a varint.
const (
	block1 = 1<<3 | 2
	block2 = 2<<3 | 2
	block3 = 3<<3 | 2
	block4 = 4<<3 | 2
	block5 = 5<<3 | 2

	varint2 = 2 << 3
)

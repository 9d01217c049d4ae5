package rdma

import (
	"fmt"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/verbs"
	"github.com/mooncake-go/mooncake/sdk/x/advice"
)

// check says why this machine has no use for the transport: no library, or no device. It
// opens neither a device nor a port, whose state may change until the transport starts.
func check() error { return checkWith("") }

func checkWith(library string) error {
	lib, err := verbs.Open(library)
	if err != nil {
		return fmt.Errorf("%w (%w)", told(advice.NoLibrary()), err)
	}
	devices, err := lib.Devices()
	if err == nil && len(devices) == 0 {
		return told(advice.NoDevice())
	}
	return err
}

// told is an advice in one line.
func told(a advice.Advice) error { return fmt.Errorf("%s; %s", a.Why, a.Do) }

package vault

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleVariable makes the test's program a store that is to be killed, or a service of systemd.
const roleVariable = "MOONCAKE_TEST_VAULT_ROLE"

func TestMain(m *testing.M) {
	switch role, where, _ := strings.Cut(os.Getenv(roleVariable), " "); role {
	case "store":
		exit(store(where))
	case "service":
		exit(service())
	case "keeper":
		exit(keeperRole(where))
	}
	goleak.VerifyTestMain(m)
}

func exit(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// memfd makes memory that holds text.
func memfd(text string) (*os.File, error) {
	fd, err := unix.MemfdCreate("segment", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "segment")
	_, err = f.WriteString(text)
	return f, err
}

// store keeps memory with the keeper at path, says so, and then waits to be killed.
func store(path string) error {
	v, err := Dial(context.Background(), path, "store")
	if err != nil {
		return err
	}
	for _, name := range []string{"segment-1", "ledger-1"} {
		f, err := memfd("the bytes of " + name)
		if err != nil {
			return err
		}
		if err := v.Keep(context.Background(), name, f); err != nil {
			return err
		}
	}
	fmt.Println("kept")
	select {}
}

// service says which descriptors it got from systemd, and what they hold.
func service() error {
	v, err := Systemd(os.Getenv)
	if err != nil {
		return err
	}
	names, err := v.Names(context.Background())
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		f, err := v.Take(context.Background(), name)
		if err != nil {
			return err
		}
		b := make([]byte, 100)
		n, _ := f.ReadAt(b, 0)
		fmt.Printf("%s: %s\n", name, b[:n])
	}
	return v.Close()
}

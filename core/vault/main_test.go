package vault

import (
	"bytes"
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
	f, err := memfds{}.Make("segment", 0)
	if err != nil {
		return nil, err
	}
	return f, fill(f, text)
}

// fill makes an empty file hold text. A hugetlbfs permits no other way.
func fill(f *os.File, text string) error {
	var fs unix.Statfs_t
	err := unix.Fstatfs(int(f.Fd()), &fs)
	if err == nil {
		err = f.Truncate(fs.Bsize)
	}
	if err != nil {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(fs.Bsize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	copy(b, text)
	return unix.Munmap(b)
}

// keep has a vault keep a file that holds text.
func keep(v Vault, name, text string) error {
	f, err := v.Make(name, 0)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // It is memory.
	if err := fill(f, text); err != nil {
		return err
	}
	return v.Keep(context.Background(), name, f)
}

// store has memory kept at path, says so, and then waits to be killed.
func store(path string) error {
	v, err := as(context.Background(), path, "store")
	if err != nil {
		return err
	}
	for _, name := range []string{"segment-1", "ledger-1"} {
		if err := keep(v, name, "the bytes of "+name); err != nil {
			return err
		}
	}
	fmt.Println("kept")
	select {}
}

// as opens the vault at path as an owner.
func as(ctx context.Context, path, owner string) (Vault, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		v, err := claim(path, owner, false)
		if err != nil {
			return nil, err
		}
		return v, nil
	}
	return Dial(ctx, path, owner)
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
		fmt.Printf("%s: %s\n", name, bytes.TrimRight(b[:n], "\x00"))
	}
	return v.Close()
}

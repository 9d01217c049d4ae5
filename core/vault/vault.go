// Package vault keeps memory beyond the life of the process that uses it, so that a store that was
// killed, upgraded or configured anew finds its segments and their ledgers again.
//
// What is kept is a file: a memfd, whose pages live as long as a process holds a descriptor of it, or a file
// of a file system in memory. The process of a store has a Vault make each, and has it kept under a name. The
// process that comes after it takes the files by name; the vault's own stay, for the next time.
//
// There are three vaults: the descriptor store of systemd (Systemd), a keeper process of this project
// (Dial; Keeper is that process itself), and the files in a directory (Open with its path).
//
// A vault says nothing of what the memory holds and whether it is whole. That is the ledger's affair.
package vault

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Vault keeps files by name. It is safe for concurrent use.
type Vault interface {
	// String says which vault it is, for logs.
	String() string
	// Names returns the names of all files that the vault has, in no order.
	Names(ctx context.Context) ([]string, error)
	// Make makes an empty file of memory, which is the caller's to close. It ends with its descriptors until Keep
	// has it. Its pages have page bytes, 0 for ordinary ones, unless the vault has pages of one size only.
	Make(name string, page uint64) (*os.File, error)
	// Take returns a descriptor of a file, which is the caller's to close. The vault's own stays. It
	// returns ErrNotKept where there is none of this name.
	Take(ctx context.Context, name string) (*os.File, error)
	// Keep has the vault keep f, which it made, in place of one of the same name.
	Keep(ctx context.Context, name string, f *os.File) error
	// Drop makes the vault forget a name. An unknown one is no error.
	Drop(ctx context.Context, name string) error
	// Close ends the use of the vault. What it keeps stays kept.
	Close() error
}

// Errors of a vault. They are wrapped with the vault and the name.
var (
	// ErrNotKept says that the vault has no descriptor of this name.
	ErrNotKept = errors.New("it is not kept")
	// ErrTaken says that another living process uses what is kept for this owner.
	ErrTaken = errors.New("another process has it")
	// ErrFull says that the vault takes no more descriptors.
	ErrFull = errors.New("the vault is full")
)

// memfds makes the files of vaults that keep descriptors.
type memfds struct{}

// Make implements Vault.
func (memfds) Make(name string, page uint64) (*os.File, error) {
	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	if page != 0 {
		flags |= unix.MFD_HUGETLB | bits.TrailingZeros64(page)<<unix.MFD_HUGE_SHIFT
	}
	fd, err := unix.MemfdCreate(name, flags)
	if err != nil {
		return nil, fmt.Errorf("vault: make %s: %w", name, os.NewSyscallError("memfd_create", err))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// maxName bounds names and owners, in bytes: systemd allows 255.
const maxName = 255

// checkName refuses what not every vault can carry: systemd's names are printable ASCII without a colon.
func checkName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("the name has %d bytes; it must have 1 to %d", len(name), maxName)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || r == ':' || r == '/' }) {
		return fmt.Errorf("the name %q must be printable ASCII without blanks, colons and slashes", name)
	}
	return nil
}

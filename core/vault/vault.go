// Package vault keeps memory beyond the life of the process that uses it, so that a store that was
// killed, upgraded or configured anew finds its segments and their ledgers again.
//
// What is kept is a file descriptor: of a memfd, whose pages live as long as a process holds one. The
// process of a store hands a copy of each to a Vault and goes on with its own. The process that comes
// after it takes copies by name; the vault's own stay, for the next time.
//
// There are two vaults: the descriptor store of systemd (Systemd), and a keeper process of this project
// (Dial; Keeper is that process itself).
//
// A vault says nothing of what the memory holds and whether it is whole. That is the ledger's affair.
package vault

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Vault keeps descriptors by name. It is safe for concurrent use.
type Vault interface {
	// String says which vault it is, for logs.
	String() string
	// Names returns the names of all descriptors that the vault has, in no order.
	Names(ctx context.Context) ([]string, error)
	// Take returns a copy of a descriptor, which is the caller's to close. The vault's own stays. It
	// returns ErrNotKept where there is none of this name.
	Take(ctx context.Context, name string) (*os.File, error)
	// Keep gives the vault a copy of f, in place of one of the same name.
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

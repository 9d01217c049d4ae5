package vault

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Settings say where a store keeps its memory.
type Settings struct {
	// Where is off, auto, systemd, keeper, the path of a directory, or the socket of a keeper: a path, or @ and an
	// abstract name.
	Where string
	// Owner names the store among those that use the same keeper or directory. Several stores may have the same owner: each of
	// them gets a number of its own, and a store that returns may get the number of another.
	Owner string
	// KeepTime is how long a keeper that Open starts keeps the memory of a store without a process.
	KeepTime time.Duration
	// Program is the program whose verb keep is a keeper. Where it is empty, Open starts none.
	Program string
	// Anew makes Open take no memory of another process.
	Anew bool
	// Env reads the environment; os.Getenv as a rule.
	Env func(string) string
}

const (
	// mostOwners bounds the stores of one owner.
	mostOwners = 64
	// openTimeout bounds the wait for a keeper that starts at the same time.
	openTimeout = 10 * time.Second
	openPause   = 20 * time.Millisecond
	// takenTimeout is how long a process that was killed may take to end.
	takenTimeout = time.Second
)

// Socket is the abstract socket of this user's keeper, if no other is chosen.
func Socket() string { return "@mooncake_keep_" + strconv.Itoa(os.Geteuid()) }

// Open opens the vault of a store, nil for none. With auto it is systemd's descriptor store where there is one,
// else the keeper of this user if it runs, else none. With keeper, Open starts a keeper if none runs. The caller
// closes the vault. Call Open once in the life of a process.
func Open(ctx context.Context, s Settings) (Vault, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	switch s.Where {
	case "off":
		return nil, nil //nolint:nilnil // No vault is no error.
	case "systemd":
		return Systemd(s.Env)
	case "keeper":
		return s.keeper(ctx)
	case "auto":
		if v, err := Systemd(s.Env); err == nil {
			return v, nil
		}
		v, err := s.dial(ctx, Socket())
		if absent(err) {
			return nil, nil //nolint:nilnil // No vault is no error.
		}
		return v, err
	default:
		return s.at(ctx, s.Where)
	}
}

// at opens the directory at path, or connects to the keeper there.
func (s *Settings) at(ctx context.Context, path string) (Vault, error) {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Type() == fs.ModeSocket {
		return s.await(ctx, path) // It may not exist yet; and an abstract name is no path.
	}
	switch {
	case info.IsDir():
		return s.own(ctx, path, func(_ context.Context, owner string, kept bool) (Vault, error) {
			v, err := claim(path, owner, kept)
			if err != nil {
				return nil, err
			}
			return v, nil
		})
	case info.Mode()&fs.ModeDevice != 0:
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "vault", "%s is a device, and a device has no files", path),
			"for persistent memory name a directory of a file system that is mounted with -o dax (ndctl create-namespace --mode=fsdax, mkfs, mount)")
	default:
		return nil, errs.WithHint(errs.New(errs.InvalidParams, "vault", "%s is neither a directory nor the socket of a keeper", path),
			"name an existing directory of a hugetlbfs or tmpfs, or the socket of 'mooncake keep'")
	}
}

// keeper connects to the keeper of this user, and starts it if none runs.
func (s *Settings) keeper(ctx context.Context) (Vault, error) {
	v, err := s.dial(ctx, Socket())
	if !absent(err) || s.Program == "" {
		return v, err
	}
	// The keeper outlives this process and inherits none of its descriptors.
	cmd := exec.CommandContext(ctx, s.Program, "keep", "--detach", "--keep_time", s.KeepTime.String(), "--idle", (s.KeepTime + time.Minute).String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("vault: start a keeper: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return s.await(ctx, Socket())
}

// await connects to a keeper that may be about to start.
func (s *Settings) await(ctx context.Context, path string) (Vault, error) {
	for {
		v, err := s.dial(ctx, path)
		if !absent(err) {
			return v, err
		}
		select {
		case <-time.After(openPause):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// absent says that no keeper runs.
func absent(err error) bool { return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) }

// dial connects to a keeper.
func (s *Settings) dial(ctx context.Context, path string) (Vault, error) {
	return s.own(ctx, "keeper at "+path, func(ctx context.Context, owner string, kept bool) (Vault, error) {
		return connect(ctx, path, owner, kept)
	})
}

// own opens a vault as an owner whose memory no process has, or as a new one. A process that was killed may be an
// owner for a moment longer, so own waits before it takes the place of a new owner beside others. open opens the
// vault as one owner; with kept it returns ErrNotKept if the vault has nothing of that owner.
func (s *Settings) own(ctx context.Context, where string, open func(ctx context.Context, owner string, kept bool) (Vault, error)) (Vault, error) {
	for deadline := time.Now().Add(takenTimeout); ; {
		taken, free := 0, ""
		for i := range mostOwners {
			name := ownerName(s.Owner, i)
			v, err := open(ctx, name, true)
			if err == nil && s.Anew {
				err = errors.Join(ErrTaken, v.Close())
			}
			switch {
			case errors.Is(err, ErrTaken):
				taken++
			case !errors.Is(err, ErrNotKept):
				return v, err
			case free == "":
				free = name
			}
		}
		if taken == mostOwners {
			return nil, fmt.Errorf("vault: %s: %w: it serves %d stores named %s, which is the most", where, ErrTaken, taken, s.Owner)
		}
		if taken == 0 || s.Anew || time.Now().After(deadline) {
			if v, err := open(ctx, free, false); !errors.Is(err, ErrTaken) {
				return v, err // Otherwise another store began at the same moment.
			}
		}
		select {
		case <-time.After(openPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// ownerName makes a name that every vault takes.
func ownerName(owner string, number int) string {
	owner = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || r == ':' || r == '/' {
			return '_'
		}
		return r
	}, owner)
	return owner[:min(len(owner), maxName-4)] + "_" + strconv.Itoa(number)
}

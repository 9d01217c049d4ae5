package trust

import (
	"context"
	"fmt"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Mode says which programs may run.
type Mode string

// The modes. The empty one is ModeAuto.
const (
	ModeAuto   Mode = "auto"   // locked if a lock file is named, else off
	ModeLocked Mode = "locked" // only programs in the lock file
	ModeTOFU   Mode = "tofu"   // trust on first use: an unknown plugin is added to the lock file when it first runs
	ModeOff    Mode = "off"    // every program, with a warning each time
)

// Resolve returns the mode that ModeAuto or the empty mode stands for, and any other mode
// unchanged. lock is the path of the lock file, empty for none.
func (m Mode) Resolve(lock string) Mode {
	switch {
	case m != "" && m != ModeAuto:
		return m
	case lock != "":
		return ModeLocked
	}
	return ModeOff
}

// Verdict says how a program compares with the lock file.
type Verdict = string

// The verdicts. A program that cannot be read has none.
const (
	BuiltIn  Verdict = "built-in" // linked into the program
	IsLocked Verdict = "locked"   // the lock file has its checksum
	FirstUse Verdict = "tofu"     // not in the lock file, and enters it when it runs first
	Unlocked Verdict = "unlocked" // not in the lock file, or there is none
	Mismatch Verdict = "mismatch" // the lock file has another checksum
)

// Judge compares programs with a lock file as it was when it was read.
type Judge struct {
	mode Mode
	path string
	lock Lock
	err  error // why there is no lock
}

// ReadJudge reads the lock file at a path, empty for none. Where it cannot be used, no
// program may run, unless the mode is ModeOff.
func ReadJudge(mode Mode, path string) Judge {
	j := Judge{mode: mode.Resolve(path), path: path}
	if path == "" {
		return j
	}
	j.lock, j.err = ReadLock(path)
	if j.mode == ModeTOFU && errs.Is(j.err, errs.FileNotFound) {
		j.err = nil // the first use creates the file
	}
	return j
}

// Mode returns the mode, never ModeAuto.
func (j Judge) Mode() Mode { return j.mode }

// Of judges a plugin's program by its version and SHA-256, for this platform. refused says why it
// may not run, and what to do.
func (j Judge) Of(id plugin.ID, version, sum string) (v Verdict, refused error) {
	locked, known := j.lock.Find(id, HostPlatform())
	refuse := func(format string, args ...any) error {
		if j.mode == ModeOff {
			return nil
		}
		return fmt.Errorf(format, args...)
	}
	repair := fmt.Sprintf("mooncake plugins lock %s --plugin-lock %s", id, j.path)
	switch {
	case errs.Is(j.err, errs.FileNotFound):
		return Unlocked, refuse("there is no lock file %s; if you trust this program, run: %s", j.path, repair)
	case j.err != nil:
		return Unlocked, refuse("the lock file cannot be used: %w", j.err)
	case known && locked.SHA256 == sum:
		return IsLocked, nil
	case known:
		return Mismatch, refuse("its SHA-256 is %.12s…, but %s has %.12s… (version %s) for %s: the program was updated or tampered with; put the locked one back, or if you trust this one (version %s), run: %s",
			sum, j.path, locked.SHA256, locked.Version, HostPlatform(), version, repair)
	case j.mode == ModeTOFU:
		return FirstUse, nil
	}
	return Unlocked, refuse("%s does not have it for %s; if you trust this program, run: %s", j.path, HostPlatform(), repair)
}

// Enter adds a program that was judged FirstUse to the lock file. It fails with FileOpenFail if
// another program was added meanwhile, or if the program is a script and would replace the entries
// of other platforms.
func (j Judge) Enter(ctx context.Context, id plugin.ID, platform string, e Locked) error {
	return UpdateLock(ctx, j.path, func(l *Lock) error {
		now := Judge{mode: j.mode, path: j.path, lock: *l}
		switch v, refused := now.Of(id, e.Version, e.SHA256); {
		case refused != nil:
			return errs.New(errs.FileOpenFail, "", "%w", refused)
		case v == IsLocked:
			return nil
		}
		if others, _ := l.Platforms(id); platform == AnyPlatform && len(others) > 0 {
			return errs.New(errs.FileOpenFail, "", "it is a script, which would replace the entries of %s for %s; if you trust it everywhere, run: mooncake plugins lock %s --plugin-lock %s",
				j.path, strings.Join(others, ", "), id, j.path)
		}
		return l.Set(id, platform, e)
	})
}

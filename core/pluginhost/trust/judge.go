package trust

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Mode says which programs may run.
type Mode string

// The modes. The empty one is ModeAuto.
const (
	ModeAuto   Mode = "auto"   // locked if a lock file or a key is named or the process is secured, else off
	ModeLocked Mode = "locked" // only programs in the lock file
	ModeTOFU   Mode = "tofu"   // trust on first use: an unknown plugin is added to the lock file when it first runs
	ModeOff    Mode = "off"    // every program, with a warning each time
)

// Rules say which programs may run.
type Rules struct {
	// Mode defaults to ModeAuto.
	Mode Mode
	// Lock is the absolute path of the lock file, empty for none.
	Lock string
	// Keys are the public keys of which one must have signed the lock file, see CheckKey. Without any, no
	// signature is demanded.
	Keys []string
	// Record is the absolute path of a file that remembers when the newest set was signed that ran here, empty for none. Its folder may
	// be missing. An older set is refused then.
	Record string
	// Secured says that security.mode of this process is not off. ModeAuto is then ModeLocked in any case.
	Secured bool
}

// Resolve returns the mode that ModeAuto or the empty mode stands for, and any other mode
// unchanged.
func (r Rules) Resolve() Mode {
	switch {
	case r.Mode != "" && r.Mode != ModeAuto:
		return r.Mode
	case r.Lock != "" || r.Secured || len(r.Keys) > 0:
		return ModeLocked
	}
	return ModeOff
}

// why says what makes ModeAuto lock, for errors.
func (r Rules) why() string {
	switch {
	case r.Secured:
		return "security.mode is not off"
	case len(r.Keys) > 0:
		return "plugins.trusted_keys is set"
	}
	return "plugins.trust is locked"
}

// Check fails with InvalidParams for rules that contradict each other or name no file by its absolute path.
func (r Rules) Check() error {
	fail := func(format string, args ...any) error {
		return errs.New(errs.InvalidParams, "plugins", format, args...)
	}
	switch r.Mode {
	case "", ModeAuto, ModeOff:
	case ModeLocked, ModeTOFU:
		if r.Lock == "" {
			return fail("trust %s needs a lock file", r.Mode)
		}
	default:
		return fail("trust %q is not auto, locked, tofu or off", r.Mode)
	}
	if r.Lock != "" && !filepath.IsAbs(r.Lock) {
		return fail("the lock file %q must be an absolute path, so that what is trusted does not depend on the working directory", r.Lock)
	}
	if len(r.Keys) > maxKeys {
		return fail("there are %d trusted keys, at most %d are allowed", len(r.Keys), maxKeys)
	}
	if len(r.Keys) > 0 && r.Mode == ModeTOFU {
		return fail("trust tofu writes the lock file, and the trusted keys demand that it is signed")
	}
	for _, k := range r.Keys {
		if err := CheckKey(k); err != nil {
			return fail("the trusted key %q %w", k, err)
		}
	}
	return nil
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
	rules Rules // with the resolved mode
	lock  Lock
	by    Signature
	err   error // why there is no lock
}

// ReadJudge reads the lock file and verifies its signature. Where the lock file cannot be used, or has no
// signature of a trusted key, no program may run, unless the mode is ModeOff.
func ReadJudge(r Rules) Judge {
	r.Mode = r.Resolve()
	j := Judge{rules: r}
	if r.Lock == "" {
		return j
	}
	var err error
	if j.lock, j.by, err = ReadSigned(r.Lock, r.Keys); err == nil && j.by.Key != "" {
		if err = r.checkNewest(j.by); err != nil {
			j.by = Signature{} // Of a set that may not run.
		}
	}
	if r.Mode == ModeTOFU && errs.Is(err, errs.FileNotFound) {
		err = nil // the first use creates the file
	}
	j.err = err
	return j
}

// Mode returns the mode, never ModeAuto.
func (j Judge) Mode() Mode { return j.rules.Mode }

// Unusable says why no program can be compared with the lock file, nil if the file can be used or none is named.
func (j Judge) Unusable() error { return j.err }

// Signed says who signed the lock file.
func (j Judge) Signed() Signature { return j.by }

// Of judges a plugin's program by its version and SHA-256, for this platform. refused says why it
// may not run, and what to do.
func (j Judge) Of(id plugin.ID, version, sum string) (v Verdict, refused error) {
	path := j.rules.Lock
	locked, known := j.lock.Find(id, HostPlatform())
	refuse := func(format string, args ...any) error {
		if j.rules.Mode == ModeOff {
			return nil
		}
		return fmt.Errorf(format, args...)
	}
	repair := fmt.Sprintf("mooncake plugins lock %s --plugin-lock %s", id, path)
	switch {
	case path == "":
		return Unlocked, refuse("only locked programs run here (%s), and plugins.lock names no file; if you trust this program, run: mooncake plugins lock %s --plugin-lock /etc/mooncake/plugins.lock.yaml, and set plugins.lock to that file; "+
			"plugins.trust: off runs every program, with a warning", j.rules.why(), id)
	case errs.Is(j.err, errs.FileNotFound):
		return Unlocked, refuse("there is no lock file %s; if you trust this program, run: %s", path, repair)
	case j.err != nil:
		return Unlocked, refuse("the lock file cannot be used: %w", j.err)
	case known && locked.SHA256 == sum:
		return IsLocked, nil
	case known:
		return Mismatch, refuse("its SHA-256 is %.12s…, but %s has %.12s… (version %s) for %s: the program was updated or tampered with; put the locked one back, or if you trust this one (version %s), run: %s",
			sum, path, locked.SHA256, locked.Version, HostPlatform(), version, repair)
	case j.rules.Mode == ModeTOFU:
		return FirstUse, nil
	}
	return Unlocked, refuse("%s does not have it for %s; if you trust this program, run: %s", path, HostPlatform(), repair)
}

// Enter adds a program that was judged FirstUse to the lock file. It fails with FileOpenFail if
// another program was added meanwhile, or if the program is a script and would replace the entries
// of other platforms.
func (j Judge) Enter(ctx context.Context, id plugin.ID, platform string, e Locked) error {
	return UpdateLock(ctx, j.rules.Lock, func(l *Lock) error {
		now := Judge{rules: j.rules, lock: *l}
		switch v, refused := now.Of(id, e.Version, e.SHA256); {
		case refused != nil:
			return errs.New(errs.FileOpenFail, "", "%w", refused)
		case v == IsLocked:
			return nil
		}
		if others, _ := l.Platforms(id); platform == AnyPlatform && len(others) > 0 {
			return errs.New(errs.FileOpenFail, "", "it is a script, which would replace the entries of %s for %s; if you trust it everywhere, run: mooncake plugins lock %s --plugin-lock %s",
				j.rules.Lock, strings.Join(others, ", "), id, j.rules.Lock)
		}
		return l.Set(id, platform, e)
	})
}

package plugins

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

func (e verbs) verifyCmd() *cobra.Command {
	var f trustFlags
	var keys []string
	var back bool
	cmd := &cobra.Command{
		Use:   "verify [ID]...",
		Short: "Compare the installed plugins with the lock file, and verify its signature",
		Long: `Computes the checksums of the named plugins, or of all that are found, and compares them with
the lock file, for every setting of plugins.trust. The exit code is 1 if a plugin differs from
its entry, has no entry, is refused, or was named and is missing, and if a folder cannot be
read. A plugin that has an entry and is not installed is listed as absent. That is no failure,
since several machines may share a lock file. No plugin is run.

With --key, or plugins.trusted_keys in the configuration, it first verifies the signature of the
lock file, without a network. A missing or wrong signature is an error, and so is a set that is
older than one that has run here, as this user. With --allow-rollback the set is accepted from now on.`,
		Example: `  mooncake plugins verify
  mooncake plugins verify evict/fifo -o json
  mooncake plugins verify --plugin-dir /opt/mooncake/plugins --plugin-lock ./plugins.lock.yaml
  mooncake plugins verify --plugin-lock ./plugins.lock.yaml --key ./set.pub`,
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := ids(args)
			if err != nil {
				return err
			}
			t, err := e.trusting(f, trust.ModeOff)
			if err != nil {
				return err
			}
			if t.lock == "" {
				return command.Usage(errNoLock)
			}
			lock, err := e.verifiedLock(cmd.Context(), t, keys, back)
			if err != nil {
				return err
			}
			checks := verify(t.catalog.List(), lock, named)
			return e.writeVerified(checks, f.format)
		},
	}
	f.register(cmd)
	cmd.Flags().StringSliceVar(&keys, "key", nil, "public key of which one must have signed the lock file, or its file; repeatable (default: plugins.trusted_keys)")
	cmd.Flags().BoolVar(&back, "allow-rollback", false, "accept a signed set that is older than one that has run here")
	return cmd
}

// verifiedLock reads the lock file, and verifies its signature if there are keys, and that no newer set has run here.
func (e verbs) verifiedLock(ctx context.Context, t trusting, keys []string, back bool) (trust.Lock, error) {
	for i, k := range keys {
		if trust.CheckKey(k) != nil {
			var err error
			if keys[i], err = filepath.Abs(k); err != nil {
				return trust.Lock{}, command.Usage(err)
			}
		}
	}
	if len(keys) == 0 {
		keys = t.keys
	}
	rules := trust.Rules{Mode: trust.ModeLocked, Lock: t.lock, Keys: keys, Record: pluginhost.RecordOf(t.lock, keys)}
	if back {
		if err := trust.AllowRollback(ctx, rules); err != nil {
			return trust.Lock{}, err
		}
	}
	lock, by, err := trust.ReadSigned(t.lock, keys)
	if err == nil {
		err = trust.ReadJudge(rules).Unusable()
	}
	if err == nil && by.Key != "" {
		fmt.Fprintf(e.Stderr, "%s is signed by key %s: %s\n", output.Printable(t.lock), by.Key, output.Printable(by.Comment))
	}
	return lock, err
}

// verified is one line of plugins verify.
type verified struct {
	ID string `json:"id" yaml:"id"`
	// Status is ok, mismatch, unlocked, refused, shadowed or absent.
	Status  string `json:"status" yaml:"status"`
	Version string `json:"version,omitempty" yaml:"version,omitempty"`
	SHA256  string `json:"sha256,omitempty" yaml:"sha256,omitempty"`
	File    string `json:"file,omitempty" yaml:"file,omitempty"`
	// Locked is the entry of the lock file for this platform.
	Locked *lockedItem `json:"locked,omitempty" yaml:"locked,omitempty"`
	Reason string      `json:"reason,omitempty" yaml:"reason,omitempty"`

	failed bool
}

// verify compares plugins with the lock file. Plugins in named, if any, must be installed, and only
// they are compared.
func verify(entries []pluginhost.Entry, lock trust.Lock, named []plugin.ID) []verified {
	out := []verified{}
	seen := map[plugin.ID]bool{}
	wanted := func(id plugin.ID) bool { return len(named) == 0 || slices.Contains(named, id) }
	for _, en := range binaries(entries, plugin.ID{}) {
		if wanted(en.ID()) {
			out = append(out, verifyOne(en, lock, seen[en.ID()]))
			seen[en.ID()] = seen[en.ID()] || en.State != plugin.StateFailed
		}
	}
	for _, en := range folders(entries) {
		out = append(out, verified{ID: "-", Status: "refused", File: en.Home, Reason: en.Reason, failed: true})
	}
	for _, id := range lock.IDs() {
		if locked, ok := lock.Find(id, trust.HostPlatform()); ok && wanted(id) && !slices.ContainsFunc(out, func(v verified) bool { return v.ID == id.String() }) {
			out = append(out, verified{ID: id.String(), Status: "absent", Locked: &lockedItem{locked.Version, locked.SHA256}, failed: len(named) > 0})
		}
	}
	for _, id := range named {
		if !slices.ContainsFunc(out, func(v verified) bool { return v.ID == id.String() }) {
			out = append(out, verified{ID: id.String(), Status: "absent", Reason: "neither locked nor found", failed: true})
		}
	}
	return out
}

func verifyOne(en pluginhost.Entry, lock trust.Lock, shadowed bool) verified {
	v := verified{ID: en.ID().String(), Version: en.Version, SHA256: en.SHA256, File: en.Home, Reason: en.Reason}
	locked, known := lock.Find(en.ID(), trust.HostPlatform())
	if known {
		v.Locked = &lockedItem{locked.Version, locked.SHA256}
	}
	switch {
	case en.State == plugin.StateFailed && shadowed:
		v.Status = "shadowed"
	case en.State == plugin.StateFailed:
		v.Status, v.failed = "refused", true
	case !known:
		v.Status, v.failed = "unlocked", true
	case locked.SHA256 != en.SHA256:
		v.Status, v.failed = "mismatch", true
	default:
		v.Status = "ok"
	}
	return v
}

func (e verbs) writeVerified(checks []verified, format output.Format) error {
	failed := 0
	for _, v := range checks {
		if v.failed {
			failed++
		}
	}
	err := output.Print(e.Stdout, format, checks, func(w io.Writer) { tableVerified(w, checks) })
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d plugins are not what is locked; if you trust them, run mooncake plugins lock", failed, len(checks))
	}
	return err
}

func tableVerified(w io.Writer, checks []verified) {
	t := output.NewColumns("ID", "STATUS", "VERSION", "SHA256", "LOCKED VERSION", "LOCKED SHA256", "FILE")
	for _, v := range checks {
		var locked lockedItem
		if v.Locked != nil {
			locked = *v.Locked
		}
		file := output.Dash(v.File)
		if v.Reason != "" {
			file += " (" + v.Reason + ")"
		}
		t.Row(v.ID, v.Status, output.Dash(v.Version), short(v.SHA256), output.Dash(locked.Version), short(locked.SHA256), file)
	}
	_ = t.Write(w) // The writer keeps the error.
}

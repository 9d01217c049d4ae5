package plugins

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// trustFlags are the common flags of the verbs for plugin files and the lock file.
type trustFlags struct {
	format     output.Format
	file, lock string
	dirs       []string
}

func (f *trustFlags) register(cmd *cobra.Command) {
	output.Flag(cmd.Flags(), &f.format, "", output.Table, output.JSON, output.YAML)
	cmd.Flags().StringSliceVar(&f.dirs, "plugin-dir", nil, "folder to search first; repeatable")
	cmd.Flags().StringVar(&f.lock, "plugin-lock", "", "lock file (default: plugins.lock of the configuration)")
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file, for its plugins.dirs, plugins.lock and plugins.trust")
}

// trusting is a catalog with its lock file.
type trusting struct {
	lock    string // absolute, empty for none
	keys    []string
	catalog *pluginhost.Catalog
}

// trusting reads the configuration. mode replaces the configured mode of trust unless it is empty.
func (e verbs) trusting(f trustFlags, mode trust.Mode) (trusting, error) {
	lock := f.lock
	if lock != "" {
		var err error
		if lock, err = filepath.Abs(lock); err != nil {
			return trusting{}, command.Usage(err)
		}
	}
	catalog, cfg, err := e.catalog(f.file, f.dirs, slog.New(slog.DiscardHandler), func(p *config.Plugins) {
		p.Lock, p.Trust = cmp.Or(lock, p.Lock), cmp.Or(string(mode), p.Trust)
	})
	return trusting{cfg.Lock, cfg.TrustedKeys, catalog}, err
}

// unsigned notes that a lock file that was changed has to be signed again.
func (e verbs) unsigned(t trusting) {
	if len(t.keys) > 0 {
		fmt.Fprintf(e.Stderr, "the lock file has changed, and no plugin runs before it is signed again: mooncake plugins sign --key FILE --plugin-lock %s\n", output.Printable(t.lock))
	}
}

var errNoLock = errors.New("no lock file is named: give --plugin-lock FILE, or set plugins.lock in the configuration")

// target is the argument of a verb: a plugin or a file.
type target struct {
	id   plugin.ID
	file string
}

// targetOf parses an argument. Everything but an ID is a path.
func targetOf(arg string) (target, error) {
	id, err := plugin.ParseID(arg)
	if err == nil {
		return target{id: id}, nil
	}
	if !strings.Contains(arg, "/") && !strings.HasPrefix(arg, plugin.BinaryPrefix) {
		return target{}, command.Usage(fmt.Errorf("%w; a file is named with its folder, such as ./%s", err, arg))
	}
	path, err := filepath.Abs(arg)
	return target{file: path}, command.Usage(err)
}

// ids parses arguments that must all be IDs.
func ids(args []string) ([]plugin.ID, error) {
	out := make([]plugin.ID, len(args))
	for i, arg := range args {
		var err error
		if out[i], err = plugin.ParseID(arg); err != nil {
			return nil, command.Usage(err)
		}
	}
	return out, nil
}

func isBuiltin(en pluginhost.Entry) bool { return en.Home == pluginhost.HomeBuiltin }

// binaries returns the entries of programs in the order of the search. A non-zero id selects one
// plugin.
func binaries(entries []pluginhost.Entry, id plugin.ID) []pluginhost.Entry {
	var out []pluginhost.Entry
	for _, en := range entries {
		if !isBuiltin(en) && en.Kind != "" && (id == plugin.ID{} || en.ID() == id) {
			out = append(out, en)
		}
	}
	return out
}

// folders returns the entries of folders that could not be read.
func folders(entries []pluginhost.Entry) []pluginhost.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(en pluginhost.Entry) bool { return en.ID() != plugin.ID{} || en.State != plugin.StateFailed })
}

// absent returns the error for a plugin without a binary.
func (e verbs) absent(id plugin.ID) error {
	for _, f := range e.Builtins {
		if f.Manifest().ID == id {
			return command.Usagef("%s is linked into this program; it has no file", id)
		}
	}
	return fmt.Errorf("there is no %s in the plugin folders; mooncake plugins list shows the plugins, --plugin-dir adds a folder", id.BinaryName())
}

// short returns the start of a checksum, for tables.
func short(sum string) string { return output.Dash(sum[:min(len(sum), 12)]) }

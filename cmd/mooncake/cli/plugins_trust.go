package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/command"
	"github.com/mooncake-go/mooncake/cmd/mooncake/internal/output"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// trustFlags are shared by the verbs that deal with files of plugins and the lock file.
type trustFlags struct {
	format     output.Format
	file, lock string
	dirs       []string
}

func (f *trustFlags) register(cmd *cobra.Command) {
	output.Flag(cmd.Flags(), &f.format, "", output.Table, output.JSON, output.YAML)
	cmd.Flags().StringSliceVar(&f.dirs, "plugin-dir", nil, "folder to look in first; repeatable")
	cmd.Flags().StringVar(&f.lock, "plugin-lock", "", "lock file (default: plugins.lock of the configuration)")
	cmd.Flags().StringVar(&f.file, "config", "", "configuration file, for its plugins.dirs, plugins.lock and plugins.trust")
}

// trusting is what the configuration and the flags say about trust.
type trusting struct {
	lock    string // absolute, empty for none
	dirs    []string
	catalog *pluginhost.Catalog
}

// trusting reads the configuration. mode is the mode of the catalog, empty for the
// configured one.
func (e *env) trusting(f trustFlags, mode trust.Mode) (trusting, error) {
	loaded, err := config.Load(config.Options{File: f.file, Environ: e.Environ, PluginDefaults: e.PluginDefaults()})
	if err != nil {
		return trusting{}, command.Usage(err)
	}
	cfg := loaded.Config
	own, err := command.Absolute(f.dirs)
	if err != nil {
		return trusting{}, err
	}
	cfg.Plugins.Dirs = append(own, cfg.Plugins.Dirs...)
	if f.lock != "" {
		if cfg.Plugins.Lock, err = filepath.Abs(f.lock); err != nil {
			return trusting{}, command.Usage(err)
		}
	}
	if mode != "" {
		cfg.Plugins.Trust = string(mode)
	}
	catalog, err := app.Catalog(cfg, e.Builtins, slog.New(slog.DiscardHandler))
	return trusting{cfg.Plugins.Lock, cfg.Plugins.Dirs, catalog}, command.Usage(err)
}

var errNoLock = errors.New("no lock file is named: give --plugin-lock FILE, or set plugins.lock in the configuration")

// target is what a verb was asked for: a plugin, or a file.
type target struct {
	id   plugin.ID
	file string
}

// targetOf reads an argument: an ID is one, anything else is a path.
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

// ids reads arguments that must all be IDs.
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

// binaries are the entries of programs, of one plugin where id is not zero, in the order in
// which they are searched.
func binaries(entries []pluginhost.Entry, id plugin.ID) []pluginhost.Entry {
	var out []pluginhost.Entry
	for _, en := range entries {
		if !isBuiltin(en) && en.Kind != "" && (id == plugin.ID{} || en.ID() == id) {
			out = append(out, en)
		}
	}
	return out
}

// folders are the entries of folders that could not be looked at as a whole.
func folders(entries []pluginhost.Entry) []pluginhost.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(en pluginhost.Entry) bool { return en.ID() != plugin.ID{} || en.State != plugin.StateFailed })
}

// absent explains that there is no binary of a plugin.
func (e *env) absent(id plugin.ID) error {
	for _, f := range e.Builtins {
		if f.Manifest().ID == id {
			return command.Usagef("%s is linked into this program; there is no file of it", id)
		}
	}
	return fmt.Errorf("there is no %s in the folders of plugins; mooncake plugins list shows what there is, --plugin-dir adds a folder", id.BinaryName())
}

// short is the beginning of a checksum, as tables show it.
func short(sum string) string { return output.Dash(sum[:min(len(sum), 12)]) }

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// trustFlags are shared by the verbs that deal with files of plugins and the lock file.
type trustFlags struct {
	output, file, lock string
	dirs               []string
}

func (f *trustFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.output, "output", "o", "table", "table, json or yaml")
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
	if outputs := []string{"table", "json", "yaml"}; !slices.Contains(outputs, f.output) {
		return trusting{}, badOutput(f.output, outputs...)
	}
	loaded, err := config.Load(config.Options{File: f.file, Environ: e.environ, PluginDefaults: e.pluginDefaults()})
	if err != nil {
		return trusting{}, usage(err)
	}
	cfg := loaded.Config
	own, err := absolute(f.dirs)
	if err != nil {
		return trusting{}, err
	}
	cfg.Plugins.Dirs = append(own, cfg.Plugins.Dirs...)
	if f.lock != "" {
		if cfg.Plugins.Lock, err = filepath.Abs(f.lock); err != nil {
			return trusting{}, usage(err)
		}
	}
	if mode != "" {
		cfg.Plugins.Trust = string(mode)
	}
	catalog, err := app.Catalog(cfg, e.builtins, slog.New(slog.DiscardHandler))
	return trusting{cfg.Plugins.Lock, cfg.Plugins.Dirs, catalog}, usage(err)
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
		return target{}, usage(fmt.Errorf("%w; a file is named with its folder, such as ./%s", err, arg))
	}
	path, err := filepath.Abs(arg)
	return target{file: path}, usage(err)
}

// ids reads arguments that must all be IDs.
func ids(args []string) ([]plugin.ID, error) {
	out := make([]plugin.ID, len(args))
	for i, arg := range args {
		var err error
		if out[i], err = plugin.ParseID(arg); err != nil {
			return nil, usage(err)
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
	for _, f := range e.builtins {
		if f.Manifest().ID == id {
			return usagef("%s is linked into this program; there is no file of it", id)
		}
	}
	return fmt.Errorf("there is no %s in the folders of plugins; mooncake plugins list shows what there is, --plugin-dir adds a folder", id.BinaryName())
}

// encode writes what a verb found as JSON or YAML; false for the table, which it leaves to
// the caller.
func (e *env) encode(v any, output string) (bool, error) {
	switch output {
	case "json":
		enc := json.NewEncoder(e.stdout)
		enc.SetIndent("", "  ")
		return true, enc.Encode(v)
	case "yaml":
		return true, yaml.NewEncoder(e.stdout).Encode(v)
	}
	return false, nil
}

// short is the beginning of a checksum, as tables show it.
func short(sum string) string { return dash(sum[:min(len(sum), 12)]) }

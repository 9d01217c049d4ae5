package plugins

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	// maxDirEntries bounds what is read of one folder, maxPerDir the plugins that it may hold.
	maxDirEntries = 10_000
	maxPerDir     = 256
)

// StandardDirs returns the folders that are searched after the configured ones:
// $XDG_DATA_HOME/mooncake/plugins (~/.local/share where that is not set) and
// /usr/lib/mooncake/plugins.
func StandardDirs(getenv func(string) string) []string {
	var dirs []string
	data := getenv("XDG_DATA_HOME")
	if home := getenv("HOME"); data == "" && home != "" {
		data = filepath.Join(home, ".local", "share")
	}
	if filepath.IsAbs(data) {
		dirs = append(dirs, filepath.Join(data, "mooncake", "plugins"))
	}
	return append(dirs, "/usr/lib/mooncake/plugins")
}

// discover lists what the folders hold, in their order. Nothing is run.
func discover(dirs []string, uid int) []Entry {
	var out []Entry
	found := map[plugin.ID]string{}
	for _, dir := range dirs {
		names, err := pluginFiles(dir)
		if err != nil {
			out = append(out, refused(plugin.ID{}, dir, err))
		}
		for _, name := range names {
			e := inspect(filepath.Join(dir, name), uid)
			if first, twice := found[e.ID()]; twice && e.usable() {
				e = refused(e.ID(), e.Home, fmt.Errorf("not used: %s comes first", first))
			}
			if e.usable() {
				found[e.ID()] = e.Home
			}
			out = append(out, e)
		}
	}
	return out
}

// pluginFiles lists the files of a folder that are named like plugins. A folder that does
// not exist has none.
func pluginFiles(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot open the plugin folder: %w", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(maxDirEntries)
	if err != nil && len(names) == 0 {
		if info, serr := f.Stat(); serr == nil && !info.IsDir() {
			return nil, errors.New("the plugin folder is not a folder")
		}
		return nil, nil // Empty.
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, plugin.BinaryPrefix) })
	slices.Sort(names)
	if len(names) > maxPerDir {
		return names[:maxPerDir], fmt.Errorf("the folder holds %d plugins, only the first %d are looked at", len(names), maxPerDir)
	}
	return names, nil
}

// inspect makes the entry of one file.
func inspect(path string, uid int) Entry {
	id, ok := plugin.ParseBinaryName(filepath.Base(path))
	if !ok {
		return refused(plugin.ID{Name: filepath.Base(path)}, path, errors.New("the file is not named mooncake-plugin-<kind>-<name>"))
	}
	real, f, err := trusted(path, uid)
	if err != nil {
		return refused(id, path, err)
	}
	defer f.Close()
	m, err := scanManifest(f)
	switch {
	case err != nil:
		return refused(id, path, err)
	case m.ID != id:
		return refused(id, path, fmt.Errorf("the file is named after %s, but its manifest says %s", id, m.ID))
	}
	e := entryOf(m, path)
	e.real = real
	return e
}

package find

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	// maxDirEntries bounds the files that a folder may hold, maxPerDir the plugins that are read.
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

// UserDir is the plugin folder of this user, the first of StandardDirs, empty where the
// user has no home.
func UserDir(getenv func(string) string) string {
	if dirs := StandardDirs(getenv); len(dirs) > 1 {
		return dirs[0]
	}
	return ""
}

// pluginFiles lists the files of a folder that are named like plugins. A folder that does
// not exist has none.
func pluginFiles(dir string) ([]string, error) {
	// Non-blocking, because the path may be a pipe, which must not block the host.
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return nil, errors.New("the plugin folder is not a folder")
	case err != nil:
		return nil, fmt.Errorf("cannot open the plugin folder: %w", err)
	}
	defer f.Close()
	names, err := f.Readdirnames(maxDirEntries + 1)
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, fmt.Errorf("cannot read the plugin folder: %w", err)
	case len(names) > maxDirEntries:
		return nil, fmt.Errorf("the folder holds more than %d files, so it is not searched; give plugins a folder of their own", maxDirEntries)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, plugin.BinaryPrefix) })
	slices.Sort(names)
	if len(names) > maxPerDir {
		return names[:maxPerDir], fmt.Errorf("the folder holds %d plugins, only the first %d are used", len(names), maxPerDir)
	}
	return names, nil
}

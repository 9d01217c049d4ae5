package find

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

const (
	// keptFolder is the folder of a plugin folder in which Install keeps the programs that it replaces. Find
	// does not search it.
	keptFolder = ".versions"
	// maxKept bounds the programs of one plugin there; the oldest makes way.
	maxKept = 5
	// sumInName is how much of the checksum is in the name of a kept program, so that two builds of one version are
	// both kept.
	sumInName = 12
)

// Kept is a program that Install has replaced.
type Kept struct {
	Version string `json:"version" yaml:"version"`
	SHA256  string `json:"sha256" yaml:"sha256"`
	// Since is when it was replaced.
	Since time.Time `json:"since" yaml:"since"`
	Path  string    `json:"path" yaml:"path"`
}

func keptDir(dir string, id plugin.ID) string {
	return filepath.Join(dir, keptFolder, id.BinaryName())
}

// Versions returns the programs of a plugin that Install has kept in a plugin folder, the last replaced first. It
// leaves out what is not a program of this plugin.
func Versions(dir string, id plugin.ID) []Kept {
	at := keptDir(dir, id)
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil
	}
	var out []Kept
	for _, e := range entries[:min(len(entries), 2*maxKept)] {
		info, err := e.Info()
		if err != nil || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(at, e.Name())
		if p, err := ReadProgram(path); err == nil && p.Manifest.ID == id {
			out = append(out, Kept{p.Manifest.Version, p.SHA256, info.ModTime(), path})
		}
	}
	slices.SortFunc(out, func(a, b Kept) int { return b.Since.Compare(a.Since) })
	return out
}

// keep copies the program that is about to be replaced.
func keep(dir string, before Program, im *launch.Image) error {
	at := keptDir(dir, before.Manifest.ID)
	if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // others may read plugins
		return err
	}
	real, err := trust.Folder(at)
	if err != nil {
		return err
	}
	folder, err := os.Open(real)
	if err != nil {
		return err
	}
	defer folder.Close()
	name := filepath.Base(before.Manifest.Version) + "+" + before.SHA256[:sumInName]
	if err := trust.Replace(folder, filepath.Join(real, name), im.Reader(), 0o755); err != nil {
		return err
	}
	kept := Versions(dir, before.Manifest.ID)
	for _, old := range kept[min(len(kept), maxKept):] {
		err = errors.Join(err, os.Remove(old.Path))
	}
	return err
}

// forget removes a kept program that is in use again.
func forget(dir string, p Program) error {
	for _, k := range Versions(dir, p.Manifest.ID) {
		if k.SHA256 == p.SHA256 {
			return os.Remove(k.Path)
		}
	}
	return nil
}

// removeVersions removes the kept programs of a plugin.
func removeVersions(dir string, id plugin.ID) error {
	if err := os.RemoveAll(keptDir(dir, id)); err != nil {
		return err
	}
	err := os.Remove(filepath.Join(dir, keptFolder))
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return nil
	}
	return fmt.Errorf("remove the folder of earlier versions: %w", err)
}

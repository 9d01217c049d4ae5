package find

import (
	"os"
	"path/filepath"
	"syscall"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Program is the file of a plugin, in any folder and with any owner.
type Program struct {
	Manifest plugin.Manifest
	SHA256   string
	// Platform is the platform of the program, trust.AnyPlatform for a script.
	Platform string
	// Size in bytes.
	Size int64
}

// Locked returns the entry of the program in a lock file.
func (p Program) Locked() trust.Locked {
	return trust.Locked{Version: p.Manifest.Version, SHA256: p.SHA256}
}

// ReadProgram reads a plugin out of a file without running it. If several plugins are linked into the file, its name says which.
// ReadProgram refuses a file that is named after another plugin. It fails with InvalidParams if the file is not a plugin.
func ReadProgram(path string) (Program, error) {
	p, im, err := readProgram(path)
	if err == nil {
		im.Close()
	}
	return p, err
}

// readProgram also returns the bytes that it read.
func readProgram(path string) (Program, *launch.Image, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Program{}, nil, errs.Wrap(errs.FileOpenFail, "", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return Program{}, nil, errs.New(errs.InvalidParams, path, "it is not a regular file")
	}
	im, err := launch.NewImage(f)
	if err != nil {
		return Program{}, nil, err
	}
	p := Program{SHA256: im.SHA256, Size: im.Size}
	id, _ := plugin.ParseBinaryName(filepath.Base(path))
	if p.Platform, err = trust.PlatformOf(im.ReaderAt()); err == nil {
		p.Manifest, err = scanManifest(im.Reader(), id)
	}
	if err != nil {
		im.Close()
		return Program{}, nil, errs.New(errs.InvalidParams, path, "%w", err)
	}
	return p, im, nil
}

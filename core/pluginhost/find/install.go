package find

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Installed is what Install did.
type Installed struct {
	Program
	// Path is where the program is now.
	Path string
	// Before is the program that was there, nil if there was none or it cannot be read.
	Before *Program
}

// Install copies a plugin into a folder, under the name that Find searches, with mode 0755.
// Concurrent readers see the old program or the new one. Install makes the folder if it is
// missing. It refuses a program for another platform, a program that speaks no contract version
// of api(kind), and a folder that other users may change. It keeps the program that it replaces, see Versions.
// NotSupported where api(kind) is empty.
func Install(ctx context.Context, file, dir string, api func(kind string) []uint) (Installed, error) {
	p, im, err := readProgram(file)
	if err != nil {
		return Installed{}, err
	}
	defer im.Close()
	if p.Platform != trust.AnyPlatform && p.Platform != trust.HostPlatform() {
		return Installed{}, errs.New(errs.InvalidParams, file, "it is a program for %s, and this is %s", p.Platform, trust.HostPlatform())
	}
	host := api(p.Manifest.Kind)
	if _, err := plugin.NegotiateAPI(host, p.Manifest.API); err != nil {
		return Installed{}, errs.Wrap(errs.InvalidVersion, file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // others may read plugins
		return Installed{}, errs.Wrap(errs.FileOpenFail, "", err)
	}
	real, err := trust.Folder(dir)
	if err != nil {
		return Installed{}, errs.New(errs.FileOpenFail, dir, "%w", err)
	}
	folder, err := os.Open(real)
	if err != nil {
		return Installed{}, errs.Wrap(errs.FileOpenFail, "", err)
	}
	defer folder.Close()
	if err := trust.Reserve(ctx, folder); err != nil {
		return Installed{}, errs.New(errs.UnavailableInCurrentStatus, dir, "another program is writing there and does not finish: %w", err)
	}
	out := Installed{Program: p, Path: filepath.Join(dir, p.Manifest.BinaryName())}
	before, old, err := readProgram(out.Path)
	if err == nil {
		defer old.Close()
		out.Before = &before
	}
	target := filepath.Join(real, p.Manifest.BinaryName())
	if info, err := os.Lstat(target); err == nil && info.IsDir() {
		return Installed{}, errs.New(errs.FileOpenFail, out.Path, "it is a folder")
	}
	if old != nil && before.Manifest.ID == p.Manifest.ID && before.SHA256 != p.SHA256 {
		if err := keep(real, before, old); err != nil {
			return Installed{}, errs.New(errs.FileOpenFail, out.Path, "cannot keep the version that it replaces: %w", err)
		}
	}
	if err := trust.Replace(folder, target, im.Reader(), 0o755); err != nil {
		return Installed{}, errs.New(errs.FileOpenFail, out.Path, "cannot write it: %w", err)
	}
	if err := forget(real, p); err != nil {
		return Installed{}, errs.New(errs.FileOpenFail, out.Path, "it is installed, but stays among the earlier versions: %w", err)
	}
	return out, nil
}

// Uninstall removes the file of a plugin and its kept versions from a folder. It fails with FileNotFound if there is no
// such file, and with FileOpenFail if this user may not remove it. A process that runs the program
// goes on.
func Uninstall(path string) error {
	id, ok := plugin.ParseBinaryName(filepath.Base(path))
	if !ok {
		return errs.New(errs.InvalidParams, path, "it is not named like a plugin")
	}
	err := os.Remove(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return errs.Wrap(errs.FileNotFound, "", err)
	case err != nil:
		return errs.Wrap(errs.FileOpenFail, "", err)
	}
	return errs.Wrap(errs.FileOpenFail, "", removeVersions(filepath.Dir(path), id))
}

// Rollback installs a program that an earlier Install has replaced: the last one of that version, or the last one
// if version is empty. The program that it replaces is kept in turn. It fails with FileNotFound if there is no such
// program, and as Install does.
func Rollback(ctx context.Context, dir string, id plugin.ID, version string, api func(kind string) []uint) (Installed, error) {
	kept := Versions(dir, id)
	i := slices.IndexFunc(kept, func(k Kept) bool {
		return version == "" || k.Version == version || strings.HasPrefix(k.SHA256, version) && len(version) >= sumInName
	})
	if i < 0 {
		var have []string
		for _, k := range kept {
			have = append(have, k.Version)
		}
		if len(have) == 0 {
			return Installed{}, errs.WithHint(errs.New(errs.FileNotFound, id.String(), "no earlier version of it is kept in %s", dir),
				"mooncake plugins install keeps what it replaces; install the earlier version from its file")
		}
		return Installed{}, errs.New(errs.FileNotFound, id.String(), "version %s of it is not kept in %s; kept are %s", version, dir, strings.Join(have, ", "))
	}
	f, err := trust.Open(kept[i].Path)
	if err != nil {
		return Installed{}, errs.New(errs.FileOpenFail, kept[i].Path, "%w", err)
	}
	_ = f.Close()
	return Install(ctx, kept[i].Path, dir, api)
}

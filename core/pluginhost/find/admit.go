package find

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mooncake-go/mooncake/core/pluginhost/launch"
	"github.com/mooncake-go/mooncake/core/pluginhost/trust"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// look makes the entry of one file. It runs nothing.
func look(path string, j trust.Judge) Entry {
	e, im := examine(path, j, nil)
	if im != nil {
		im.Close()
	}
	return e
}

func (f *Finder) judge() trust.Judge { return trust.ReadJudge(f.opts.Rules) }

// Admit copies a file, which may have been replaced since it was found, and checks the copy. The
// copy is what will run. With trust.ModeTOFU Admit locks a program that is not locked yet. log
// records the programs that run unchecked or are locked now. The caller closes the image. Admit
// fails with FileOpenFail if the program may not run.
func (f *Finder) Admit(ctx context.Context, path string, id plugin.ID, log *slog.Logger) (Entry, *launch.Image, error) {
	judge := f.judge()
	e, im := examine(path, judge, launch.NewImage)
	if im != nil && !e.Usable() {
		im.Close()
	}
	switch {
	case !e.Usable():
		return e, nil, errs.New(errs.FileOpenFail, path, "%s", e.Reason)
	case e.ID() != id:
		im.Close()
		return e, nil, errs.New(errs.FileOpenFail, path, "it is %s, not %s", e.ID(), id)
	}
	switch {
	case e.Trust == trust.FirstUse:
		if err := enter(ctx, judge, e, im); err != nil {
			im.Close()
			return e, nil, err
		}
		e.Trust = trust.IsLocked
		log.Info("the program is run for the first time and locked", "path", path, "version", e.Version, "sha256", e.SHA256, "lock", f.opts.Lock)
	case judge.Mode() == trust.ModeOff:
		why := "plugins.trust is off"
		if f.opts.Secured {
			why += " although security.mode is not"
		}
		log.Warn("the program is run unchecked: "+why+"; lock it with `mooncake plugins lock` and name the file in plugins.lock", "path", path, "version", e.Version, "sha256", e.SHA256)
	}
	if err := judge.Ran(ctx); err != nil {
		log.Warn("an older signed set of plugins would not be noticed after this", "error", err)
	}
	return e, im, nil
}

// examine makes the entry of one file. If image is not nil, it makes an image of the file, and
// the entry describes the image.
func examine(path string, j trust.Judge, image func(*os.File) (*launch.Image, error)) (Entry, *launch.Image) {
	id, ok := plugin.ParseBinaryName(filepath.Base(path))
	if !ok {
		return refused(plugin.ID{Name: filepath.Base(path)}, path, fmt.Errorf("the file is not named mooncake-plugin-<kind>-<name>")), nil
	}
	f, err := trust.Open(path)
	if err != nil {
		return refused(id, path, err), nil
	}
	defer f.Close()
	var im *launch.Image
	text, head, sum := io.Reader(f), io.ReaderAt(f), ""
	if image != nil {
		if im, err = image(f); err != nil {
			return refused(id, path, err), nil
		}
		text, head, sum = im.Reader(), im.ReaderAt(), im.SHA256
	} else if sum, err = Checksum(f); err != nil {
		return refused(id, path, err), nil
	}
	m, err := scanManifest(text, id)
	if err != nil {
		return refused(id, path, err), im
	}
	e := EntryOf(m, path)
	e.SHA256 = sum
	if p, err := trust.PlatformOf(head); err == nil && p != trust.AnyPlatform && p != trust.HostPlatform() {
		e.State, e.Reason = plugin.StateFailed, fmt.Sprintf("it is a program for %s, and this is %s", p, trust.HostPlatform())
		return e, im
	}
	if e.Trust, err = j.Of(id, e.Version, sum); err != nil {
		e.State, e.Reason = plugin.StateFailed, err.Error()
	}
	if e.Trust == trust.IsLocked {
		e.SignedBy = j.Signed().Key
	}
	return e, im
}

// Checksum computes the SHA-256 of a file in hexadecimal, and sets its offset to the beginning.
// It fails if the file is larger than launch.MaxProgram.
func Checksum(f io.ReadSeeker) (string, error) { return checksum(f, launch.MaxProgram) }

func checksum(f io.ReadSeeker, limit int64) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, limit+1))
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read it: %w", err)
	case n > limit:
		return "", fmt.Errorf("the program is larger than %d MiB", limit>>20)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// enter adds a program to the lock file.
func enter(ctx context.Context, j trust.Judge, e Entry, im *launch.Image) error {
	platform, err := trust.PlatformOf(im.ReaderAt())
	if err != nil {
		return errs.New(errs.FileOpenFail, e.Home, "%w", err)
	}
	err = j.Enter(ctx, e.ID(), platform, trust.Locked{Version: e.Version, SHA256: e.SHA256})
	return errs.Wrap(errs.CodeOf(err), e.Home, err)
}

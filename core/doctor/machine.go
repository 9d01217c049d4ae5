package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/ha/open"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/pluginhost/launch/sandbox"
	"github.com/mooncake-go/mooncake/core/vault"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/x/crc32c"
)

// Machine is how the checks see a machine. The functions that take a context are called once, and
// are bounded by it.
type Machine struct {
	// Root is its file system, rooted at "/".
	Root fs.FS
	// UID is the user that the role will run as.
	UID int
	// Home is that user's folder of data, XDG_DATA_HOME, empty for none.
	Home string
	// Clock reads its clocks.
	Clock func() (Clock, error)
	// Kept says what a directory has of kept memory, as vault.Survey does.
	Kept func(path string) (vault.Found, error)
	// Disk looks at a folder for a storage tier, and writes and reads a trial file there.
	Disk func(ctx context.Context, path string) (Disk, error)
	// Sandbox says what the kernel takes from the processes of plugins, as sandbox.Probe does.
	Sandbox func() sandbox.Kernel
	// Checksum names the code that computes checksums and its bytes a second, as crc32c.Kernel does.
	Checksum func() (name string, rate float64, err error)
	// Ring opens an io_uring, nil where it is not to be tried.
	Ring func() error
	// Master asks the master at host:port whether it serves and returns its version.
	Master func(ctx context.Context, address string) (version string, err error)
	// Leader asks which master leads, as package open does.
	Leader func(ctx context.Context, store config.Store) (leader string, err error)
	// Metadata asks the metadata service whether it answers.
	Metadata func(ctx context.Context, url string) error
}

// Clock is the state of a machine's clocks.
type Clock struct {
	Now time.Time
	// Synchronised says that a time service disciplines the clock, within MaxError.
	Synchronised bool
	MaxError     time.Duration
	// Suspended is how long the machine slept since it booted.
	Suspended time.Duration
}

// ThisMachine is the machine that the program runs on. master asks a master.
func ThisMachine(s config.Security, master func(context.Context, string) (string, error)) Machine {
	home := os.Getenv("XDG_DATA_HOME")
	if home == "" {
		if h, err := os.UserHomeDir(); err == nil {
			home = h + "/.local/share"
		}
	}
	return Machine{Root: os.DirFS("/"), UID: os.Getuid(), Home: home, Clock: readClock, Kept: vault.Survey, Disk: tryDisk, Ring: tryRing, Checksum: crc32c.Kernel, Sandbox: sandbox.Probe, Master: master, Leader: func(ctx context.Context, pool config.Store) (string, error) { return askLeader(ctx, pool, s) }, Metadata: func(ctx context.Context, url string) error { return askMetadata(ctx, s, url) }}
}

func readClock() (Clock, error) {
	c := Clock{Now: time.Now()}
	var x unix.Timex
	state, err := unix.Adjtimex(&x)
	if err != nil {
		return c, fmt.Errorf("adjtimex: %w", err)
	}
	c.Synchronised = state != unix.TIME_ERROR && x.Status&unix.STA_UNSYNC == 0
	c.MaxError = time.Duration(x.Maxerror) * time.Microsecond
	var boot, mono unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) == nil && unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) == nil {
		c.Suspended = max(0, time.Duration(boot.Nano()-mono.Nano()).Truncate(time.Second))
	}
	return c, nil
}

func askLeader(ctx context.Context, s config.Store, process config.Security) (string, error) {
	return open.Leader(ctx, s.MasterServerAddress, s.ClusterID, open.FromConfig(s, process, nil))
}

// askMetadata asks for a key that does not exist: any answer of HTTP but an error of the server's
// own shows that a server is there.
func askMetadata(ctx context.Context, s config.Security, url string) error {
	d, err := doors.Open(s, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	sep := "?"
	if strings.Contains(url, "?") {
		sep = "&"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+sep+"key=mooncake%2Fdoctor", nil)
	if err != nil {
		return err
	}
	transport := d.Transport(&http.Transport{DisableKeepAlives: true}, config.DoorMetadata, security.RoleMaster)
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
	if err != nil {
		return err
	}
	switch {
	case resp.StatusCode == http.StatusOK:
		return nil
	case resp.StatusCode == http.StatusNotFound && strings.Contains(string(body), "metadata"):
		return nil
	default:
		return fmt.Errorf("it answers %s, which a metadata service does not", resp.Status)
	}
}

// text returns a file without the blanks around, empty where it cannot be read.
func (m Machine) text(name string) string {
	b, err := fs.ReadFile(m.Root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// number returns the number in a file, false where there is none.
func (m Machine) number(name string) (int64, bool) {
	n, err := strconv.ParseInt(m.text(name), 10, 64)
	return n, err == nil
}

// exists reports whether there is such a file; one that may not be looked at counts.
func (m Machine) exists(name string) bool {
	_, err := fs.Stat(m.Root, name)
	return err == nil || !errors.Is(err, fs.ErrNotExist)
}

// group returns the content of a control group's file nearest to the process for which
// accept says yes: v2 below the unified hierarchy, v1 below the controller's own.
func (m Machine) group(controller, v2, v1 string, accept func(string) bool) (string, bool) {
	for line := range strings.SplitSeq(m.text("proc/self/cgroup"), "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		base, file := "", ""
		switch {
		case f[0] == "0" && f[1] == "":
			base, file = "sys/fs/cgroup", v2
		case strings.Contains(","+f[1]+",", ","+controller+","):
			base, file = "sys/fs/cgroup/"+controller, v1
		default:
			continue
		}
		for dir := strings.Trim(f[2], "/"); ; dir = dir[:max(0, strings.LastIndexByte(dir, '/'))] {
			name := base + "/" + dir + "/" + file
			if dir == "" {
				name = base + "/" + file
			}
			if text := m.text(name); text != "" && accept(text) {
				return text, true
			}
			if dir == "" {
				break
			}
		}
	}
	return "", false
}

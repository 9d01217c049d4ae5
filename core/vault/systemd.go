package vault

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// The variables by which systemd speaks to a service: sd_notify(3), sd_pid_notify_with_fds(3) and
// sd_listen_fds(3).
const (
	envNotify = "NOTIFY_SOCKET" // where to send messages
	envStore  = "FDSTORE"       // how many descriptors the service may store; since systemd 254
	envPID    = "LISTEN_PID"
	envCount  = "LISTEN_FDS"
	envNames  = "LISTEN_FDNAMES"
	firstFD   = 3
)

// systemdVault is the descriptor store of the service manager. It passes all descriptors to every new
// process of the service, and forgets them when the service is stopped, unless its unit says
// FileDescriptorStorePreserve=yes.
type systemdVault struct {
	memfds
	socket string
	mu     sync.Mutex
	files  map[string]*os.File // passed at the start, or kept since
}

// Systemd returns the descriptor store of the service that this process is the main process of. env reads
// the environment (os.Getenv). It returns an error where the unit does not set FileDescriptorStoreMax=.
// Call it once in the life of a process: the descriptors that systemd passed become the vault's.
func Systemd(env func(string) string) (Vault, error) {
	v := &systemdVault{socket: env(envNotify), files: map[string]*os.File{}}
	if v.socket == "" {
		return nil, fmt.Errorf("vault: %s is not set: this process is no service of systemd with Type=notify or NotifyAccess=", envNotify)
	}
	if most := env(envStore); most == "0" || most == "" && env(envCount) == "" {
		return nil, fmt.Errorf("vault: systemd stores no descriptors for this service; set FileDescriptorStoreMax= in its unit (systemd 254 or newer)")
	}
	if err := v.passed(env); err != nil {
		return nil, fmt.Errorf("vault: %w", err)
	}
	return v, nil
}

// passed takes over the descriptors that systemd passed.
func (v *systemdVault) passed(env func(string) string) error {
	count := env(envCount)
	if count == "" || env(envPID) != strconv.Itoa(os.Getpid()) {
		return nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return fmt.Errorf("%s is %q, must be a number", envCount, count)
	}
	names := strings.Split(env(envNames), ":")
	for i := range n {
		unix.CloseOnExec(firstFD + i)
		f := os.NewFile(uintptr(firstFD+i), "kept memory")
		if i >= len(names) || names[i] == "" || v.files[names[i]] != nil {
			closeFile(f) // Without a name of its own it is not from here.
			continue
		}
		v.files[names[i]] = f
	}
	return nil
}

func (v *systemdVault) String() string { return "systemd's descriptor store" }

// Names implements Vault.
func (v *systemdVault) Names(context.Context) ([]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Keys(v.files)), nil
}

// Take implements Vault.
func (v *systemdVault) Take(_ context.Context, name string) (*os.File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.files[name]
	if f == nil {
		return nil, fmt.Errorf("vault: %s: %s: %w", v, name, ErrNotKept)
	}
	return duplicate(f)
}

// Keep implements Vault. systemd does not say whether it took the descriptor: it refuses silently what
// exceeds FileDescriptorStoreMax=.
func (v *systemdVault) Keep(_ context.Context, name string, f *os.File) error {
	if err := checkName(name); err != nil {
		return fmt.Errorf("vault: %s: %w", v, err)
	}
	copied, err := duplicate(f)
	if err != nil {
		return fmt.Errorf("vault: %s: %s: %w", v, name, err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if old := v.files[name]; old != nil {
		if err := v.notify("FDSTOREREMOVE=1\nFDNAME="+name, nil); err != nil {
			closeFile(copied)
			return err
		}
		closeFile(old)
		delete(v.files, name)
	}
	// FDPOLL=0: systemd shall not drop a descriptor on which poll reports an error or a hang-up.
	if err := v.notify("FDSTORE=1\nFDPOLL=0\nFDNAME="+name, copied); err != nil {
		closeFile(copied)
		return err
	}
	v.files[name] = copied
	return nil
}

// Drop implements Vault.
func (v *systemdVault) Drop(_ context.Context, name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.files[name]
	if f == nil {
		return nil
	}
	if err := v.notify("FDSTOREREMOVE=1\nFDNAME="+name, nil); err != nil {
		return err
	}
	closeFile(f)
	delete(v.files, name)
	return nil
}

// notify sends one message to systemd, which reads at once or has a queue: a full one is an error, not a wait.
func (v *systemdVault) notify(text string, f *os.File) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("vault: %s: socket: %w", v, err)
	}
	defer unix.Close(fd) //nolint:errcheck // A datagram socket has nothing to flush.
	var oob []byte
	if f != nil {
		oob = unix.UnixRights(int(f.Fd()))
	}
	if err := unix.Sendmsg(fd, []byte(text), oob, &unix.SockaddrUnix{Name: v.socket}, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("vault: %s: message to %s: %w", v, v.socket, err)
	}
	return nil
}

// Close implements Vault.
func (v *systemdVault) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.files {
		closeFile(f)
	}
	clear(v.files)
	return nil
}

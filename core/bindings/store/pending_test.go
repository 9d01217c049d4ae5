package store_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/store"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/memory"
)

// heldAddress is a port of loopback that refuses connections until the test listens there: a
// socket that does not listen keeps it from others.
func heldAddress(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	require.NoError(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return fmt.Sprint("127.0.0.1:", at.(*unix.SockaddrInet4).Port)
}

// masterAt starts a master in this process at an address.
func masterAt(t testing.TB, address string) {
	t.Helper()
	loaded, err := config.Load(config.Options{Role: config.RoleMaster})
	require.NoError(t, err)
	m, err := app.StartLocalMasterAt(t.Context(), address, loaded.Config, builtin.Plugins(), quiet)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(context.Background())) })
}

// safeLog is a log that goroutines write.
type safeLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *safeLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *safeLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// TestAFailedSetupIsCompletedByACall: a program that ignores the code of setup has a working store
// from the first call on that finds the master there, with the memory it registered before.
func TestAFailedSetupIsCompletedByACall(t *testing.T) {
	address := heldAddress(t)
	var log safeLog
	s := store.New(options(&log))
	require.EqualValues(t, -1, s.Setup(t.Context(), dict(address, "max_wait_time=0", "global_segment_size=16MB"), false, nil))
	assert.Contains(t, s.LastError(), "refused")
	assert.Contains(t, s.LastError(), "goes on trying")
	name := s.Hostname()
	assert.Regexp(t, `^127\.0\.0\.1:1[234]\d\d\d$`, name)
	page := bytes.Repeat([]byte("page"), 1024)
	require.Zero(t, s.Register(memory.AddrOf(page), uint64(len(page))), s.LastError())

	var out [1]store.Code
	assert.EqualValues(t, -900, put(s, "k", page))
	s.GetInto([]string{"k"}, pieces(page), out[:])
	assert.EqualValues(t, -900, out[0])
	s.Exist([]string{"k"}, out[:])
	assert.EqualValues(t, -900, out[0])
	assert.EqualValues(t, 2, s.Health())
	assert.EqualValues(t, -900, s.RemoveAll(true))
	assert.Contains(t, s.Control("allocate_and_mount_segment", `{"size":16777216}`), `"code":-1010`)

	masterAt(t, address)
	time.Sleep(300 * time.Millisecond) // Longer than the pause between two attempts to connect.
	require.Zero(t, put(s, "k", page), "%s\n%s", s.LastError(), log.String())
	assert.Equal(t, page, get(s, "k"))
	assert.Equal(t, name, s.Hostname())
	assert.Zero(t, s.Health())
	assert.Contains(t, log.String(), "memory is mounted")
	require.Zero(t, s.Unregister(memory.AddrOf(page)), s.LastError())
	assert.Zero(t, s.Setup(t.Context(), dict(address, "global_segment_size=16MB"), false, nil), "a program may also try again")
	assert.EqualValues(t, -600, s.Setup(t.Context(), dict(address, "global_segment_size=16MB"), false, nil))
	require.Zero(t, s.Close())
	assert.EqualValues(t, 1, s.Health())
}

// TestSetupWaitsForTheMaster, and says so.
func TestSetupWaitsForTheMaster(t *testing.T) {
	address := heldAddress(t)
	var log safeLog
	s := store.New(options(&log))
	code := make(chan store.Code, 1)
	go func() { code <- s.Setup(context.Background(), dict(address, "max_wait_time=60"), false, nil) }()
	require.Eventually(t, func() bool { return bytes.Contains([]byte(log.String()), []byte("waiting for the master")) }, 10*time.Second, time.Millisecond)
	assert.Contains(t, log.String(), "address="+address+" up_to=1m0s")
	assert.Contains(t, log.String(), "refused")
	masterAt(t, address)
	require.Zero(t, <-code, s.LastError())
	assert.Contains(t, log.String(), "the master answers, the wait is over")
	require.Zero(t, put(s, "k", []byte("v")), "a node without memory: the put has no room")
	require.Zero(t, s.Close())
}

// TestASetupUnderWayIsEnded by its context, by Close, and by Interrupt; the store is not set up
// then, and can be.
func TestASetupUnderWayIsEnded(t *testing.T) {
	address := heldAddress(t)
	for name, end := range map[string]func(*store.Store, context.CancelFunc){
		"context":   func(_ *store.Store, cancel context.CancelFunc) { cancel() },
		"close":     func(s *store.Store, _ context.CancelFunc) { assert.Zero(t, s.Close()) },
		"interrupt": func(s *store.Store, _ context.CancelFunc) { s.Interrupt() },
	} {
		t.Run(name, func(t *testing.T) {
			var log safeLog
			s := store.New(options(&log))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			code := make(chan store.Code, 1)
			go func() { code <- s.Setup(ctx, dict(address, "max_wait_time=86400"), false, nil) }()
			require.Eventually(t, func() bool { return bytes.Contains([]byte(log.String()), []byte("waiting for the master")) }, 10*time.Second, time.Millisecond)
			end(s, cancel)
			assert.Negative(t, <-code)
			assert.False(t, s.IsSetup())
			assert.EqualValues(t, 1, s.Health())
			require.Zero(t, s.Close())
		})
	}
}

// TestWhatWaitingCannotMendFailsAtOnce, and nothing goes on in the background.
func TestWhatWaitingCannotMendFailsAtOnce(t *testing.T) {
	s := store.New(options(&safeLog{}))
	for _, bad := range []string{"master_server_addr=nowhere", "max_wait_time=-1", "max_wait_time=soon", "global_segment_size=50%", "local_hostname="} {
		assert.EqualValues(t, -600, s.Setup(t.Context(), dict("127.0.0.1:1", bad), false, nil), bad)
		assert.False(t, s.IsSetup(), bad)
	}
}

package quota

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/fx/fxtest"
)

// lines collects log lines and tells of each.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
	each chan struct{}
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	select {
	case l.each <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestHangupReadsTheQuotasAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write("version: 1\ntenants: []\n")
	out := &lines{each: make(chan struct{}, 16)}
	log := slog.New(slog.NewTextHandler(out, nil))
	keeper, err := OpenKeeper(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	lc := fxtest.NewLifecycle(t)
	reloadOnHangup(lc, keeper, log)
	lc.RequireStart()
	defer lc.RequireStop()
	hangup := func() {
		require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
		<-out.each
	}
	usage := keeper.Usage()
	require.Empty(t, usage.List())
	_, err = keeper.Set("blue", 100)
	require.NoError(t, err)
	require.Len(t, usage.List(), 1)
	write("version: 1\ntenants: []\n")
	hangup()
	require.Empty(t, usage.List())
	require.Contains(t, out.String(), "changed")
	write("nonsense")
	hangup()
	require.Contains(t, out.String(), "the old one stays in force")
}

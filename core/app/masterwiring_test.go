package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/fx/fxtest"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master"
	"github.com/mooncake-go/mooncake/core/master/quota"
	"github.com/mooncake-go/mooncake/core/model"
	arena "github.com/mooncake-go/mooncake/plugins/alloc-arena"
	prefix "github.com/mooncake-go/mooncake/plugins/evict-prefix"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Every setting of the master's own rooms reaches it: with other values than the defaults
// everywhere no field of its configuration keeps its default, but for what has no key.
func TestEveryMasterSettingArrives(t *testing.T) {
	defaults := settings(t, nil).Master
	require.Equal(t, master.DefaultConfig(), masterConfig(defaults), "both have the same defaults")
	changed := defaults
	v := reflect.ValueOf(&changed).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(f.Int() + 7)
		case reflect.Uint64:
			f.SetUint(f.Uint() + 7)
		case reflect.Float64:
			f.SetFloat(f.Float() / 2)
		case reflect.Bool:
			f.SetBool(!f.Bool())
		case reflect.String:
			f.SetString("free_ratio_first")
		}
	}
	noKey := map[string]bool{"Version": true, "ExistRanks": true, "MaxBatch": true}
	a, b := reflect.ValueOf(master.DefaultConfig()), reflect.ValueOf(masterConfig(changed))
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		require.Equal(t, noKey[name], reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()), name)
	}
	x, y := reflect.ValueOf(master.DefaultConfig().Tasks), reflect.ValueOf(masterConfig(changed).Tasks)
	for i := range x.NumField() {
		require.NotEqual(t, x.Field(i).Interface(), y.Field(i).Interface(), x.Type().Field(i).Name)
	}
}

func TestTenantsNeedTheirFile(t *testing.T) {
	multi := func(path string) (*masterRole, error) {
		cfg := settings(t, func(c *config.Config) { c.Master.EnableMultiTenants, c.Master.TenantQuotaConnectorURI = true, path })
		return newMaster(cfg, []plugin.Factory{arena.Factory(), prefix.Factory()}, quiet)
	}
	_, err := multi("")
	require.ErrorContains(t, err, "tenant_quota_connector_uri")
	_, err = multi(filepath.Join(t.TempDir(), "none"))
	require.Equal(t, errs.FileNotFound, errs.CodeOf(err))
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	require.NoError(t, os.WriteFile(path, []byte("version: 1\ntenants: []\n"), 0o600))
	m, err := multi(path)
	require.NoError(t, err)
	q, err := m.service.SetTenantQuota(t.Context(), "a", 1<<20)
	require.NoError(t, err)
	require.Equal(t, uint64(1<<20), q.Requested)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(data), "a")
	single, err := newMaster(settings(t, nil), []plugin.Factory{arena.Factory(), prefix.Factory()}, quiet)
	require.NoError(t, err)
	_, err = single.service.TenantQuotas(t.Context())
	require.Equal(t, errs.UnavailableInCurrentMode, errs.CodeOf(err))
}

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
	keeper, err := quota.OpenKeeper(path, quiet)
	require.NoError(t, err)
	lc := fxtest.NewLifecycle(t)
	reloadOnHangup(lc, keeper, log)
	lc.RequireStart()
	defer lc.RequireStop()
	hangup := func() {
		require.NoError(t, syscall.Kill(syscall.Getpid(), syscall.SIGHUP))
		<-out.each
	}
	ledger := keeper.Ledger()
	require.Empty(t, ledger.List())
	require.NoError(t, errOf(keeper.Set("blue", 100)))
	require.Len(t, ledger.List(), 1)
	write("version: 1\ntenants: []\n")
	hangup()
	require.Empty(t, ledger.List())
	require.Contains(t, out.String(), "changed")
	write("nonsense")
	hangup()
	require.Contains(t, out.String(), "the old one stays in force")
}

func errOf(_ model.TenantQuota, err error) error { return err }

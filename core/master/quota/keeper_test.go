package quota

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

const twoTenants = "version: 1\ntenants:\n- {name: a, quota: 100}\n- {name: b, quota: 1KB}\n"

func write(t *testing.T, path, text string) {
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

func open(t *testing.T, text string) (*Keeper, string, *bytes.Buffer) {
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	write(t, path, text)
	var log bytes.Buffer
	k, err := OpenKeeper(path, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	return k, path, &log
}

func onDisk(t *testing.T, path string) Policy {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	p, err := ParsePolicy(data)
	require.NoError(t, err)
	return p
}

func TestWhatTheMasterCannotStartWith(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenKeeper("", slog.Default())
	require.True(t, errs.Is(err, errs.InvalidParams))
	_, err = OpenKeeper(filepath.Join(dir, "none"), slog.Default())
	require.True(t, errs.Is(err, errs.FileNotFound))
	_, err = OpenKeeper(dir, slog.Default())
	require.True(t, errs.Is(err, errs.FileReadFail))
	write(t, filepath.Join(dir, "bad"), "version: 7")
	_, err = OpenKeeper(filepath.Join(dir, "bad"), slog.Default())
	require.True(t, errs.Is(err, errs.InvalidParams))
}

func TestSetAndDeleteAreInTheFile(t *testing.T) {
	k, path, _ := open(t, twoTenants)
	q, err := k.Set("c", 5<<20)
	require.NoError(t, err)
	require.Equal(t, model.TenantQuota{Tenant: "c", Requested: 5 << 20, Effective: 5 << 20, ExplicitPolicy: true}, q)
	require.Equal(t, []Entry{{"a", 100}, {"b", 1024}, {"c", 5 << 20}}, onDisk(t, path).Tenants)
	require.NoError(t, k.Usage().Charge("c", 1))
	require.True(t, errs.Is(k.Delete("c"), errs.TenantNotEmpty))
	require.NoError(t, k.Delete("a"))
	require.True(t, errs.Is(k.Delete("a"), errs.TenantNotRegistered))
	require.Equal(t, []Entry{{"b", 1024}, {"c", 5 << 20}}, onDisk(t, path).Tenants)

	for _, c := range []struct {
		tenant string
		bytes  uint64
	}{{"_x", 1}, {"x", 0}, {"x", MaxQuota + 1}} {
		_, err := k.Set(c.tenant, c.bytes)
		require.True(t, errs.Is(err, errs.InvalidParams))
	}
	_, err = k.Set("", 7)
	require.NoError(t, err)
	require.Equal(t, Entry{"default", 7}, onDisk(t, path).Tenants[2])
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "the permissions are unchanged")
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1, "nothing is left beside it")
}

func TestASymbolicLinkStaysOne(t *testing.T) {
	k, path, _ := open(t, twoTenants)
	link := filepath.Join(t.TempDir(), "link.yaml")
	require.NoError(t, os.Symlink(path, link))
	k.source = File(link)
	_, err := k.Set("c", 1)
	require.NoError(t, err)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink)
	require.Len(t, onDisk(t, path).Tenants, 3)
}

func TestWhatCannotBeWrittenIsNotInForce(t *testing.T) {
	// The name is too long for that of the temporary file that would replace it.
	path := filepath.Join(t.TempDir(), strings.Repeat("x", 250))
	write(t, path, twoTenants)
	k, err := OpenKeeper(path, slog.Default())
	require.NoError(t, err)
	_, err = k.Set("c", 1)
	require.True(t, errs.Is(err, errs.FileWriteFail), "%v", err)
	require.True(t, errs.Is(k.Usage().Charge("c", 1), errs.TenantNotRegistered))
	require.True(t, errs.Is(k.Delete("a"), errs.FileWriteFail))
	require.NoError(t, k.Usage().Charge("a", 1), "the tenant is still there")
}

func TestAnEditIsNotOverwritten(t *testing.T) {
	k, path, _ := open(t, twoTenants)
	write(t, path, "version: 1\ntenants: [{name: z, quota: 1}]\n")
	_, err := k.Set("c", 1)
	require.NoError(t, err)
	require.Equal(t, []Entry{{"c", 1}, {"z", 1}}, onDisk(t, path).Tenants)
	write(t, path, "version: 1\ntenants: [{name: z")
	_, err = k.Set("d", 1)
	require.True(t, errs.Is(err, errs.InvalidParams))
	require.True(t, errs.Is(k.Delete("c"), errs.InvalidParams))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(data), "z"), "the keeper does not touch a file that another process is still writing")
	require.NoError(t, k.Usage().Charge("c", 1))
}

func TestTheFileIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, path, log := open(t, twoTenants)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); k.Run(ctx) }()
		touched := time.Now()
		rewrite := func(text string) {
			write(t, path, text)
			touched = touched.Add(time.Hour)
			require.NoError(t, os.Chtimes(path, touched, touched))
			time.Sleep(lookInterval + time.Second)
			synctest.Wait()
		}
		rewrite("version: 1\ntenants: [{name: z, quota: 1}]\n")
		require.NoError(t, k.Usage().Charge("z", 1))
		require.Contains(t, log.String(), "changed")
		rewrite("nonsense")
		time.Sleep(5 * lookInterval)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "level=ERROR"), "a broken file is reported once: %s", log)
		require.True(t, errs.Is(k.Usage().Charge("z", 1), errs.TenantQuotaExceeded), "the old policy stays")
		stop()
		<-done
	})
}

func TestReload(t *testing.T) {
	k, path, _ := open(t, twoTenants)
	changed, err := k.Reload()
	require.NoError(t, err)
	require.False(t, changed)
	write(t, path, "version: 1\ntenants: []")
	changed, err = k.Reload()
	require.NoError(t, err)
	require.True(t, changed)
	require.NoError(t, os.Remove(path))
	_, err = k.Reload()
	require.True(t, errs.Is(err, errs.FileNotFound))
}

func TestANilKeeperIsOff(t *testing.T) {
	var k *Keeper
	require.Nil(t, k.Usage())
	_, err := k.Set("a", 1)
	require.True(t, errs.Is(err, errs.UnavailableInCurrentMode))
	require.True(t, errs.Is(k.Delete("a"), errs.UnavailableInCurrentMode))
	_, err = k.Reload()
	require.True(t, errs.Is(err, errs.UnavailableInCurrentMode))
	k.Run(t.Context())
}

// TestAPartOfAPool: a master of one of several parts enforces its share and keeps the whole in the file.
func TestAPartOfAPool(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quotas.yaml")
	write(t, path, "version: 1\ntenants: [{name: z, quota: 10}]\n")
	k, err := OpenPart(path, 4, slog.Default())
	require.NoError(t, err)
	k.Usage().SetCapacity(1 << 20)
	require.NoError(t, k.Usage().Charge("z", 3))
	require.True(t, errs.Is(k.Usage().Charge("z", 1), errs.TenantQuotaExceeded))
	q, err := k.Set("y", 400)
	require.NoError(t, err)
	require.EqualValues(t, 100, q.Requested)
	require.Equal(t, []Entry{{"y", 400}, {"z", 10}}, onDisk(t, path).Tenants)
	changed, err := k.Reload()
	require.NoError(t, err)
	require.False(t, changed)
}

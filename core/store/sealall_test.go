package store_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/core/store/client"
	"github.com/mooncake-go/mooncake/core/store/internal/seal"
)

// sealVariable has all clients of the tests seal: mac or aead.
const sealVariable = "MOONCAKE_TEST_SEAL"

// sealForTest has a client seal as the variable says.
func sealForTest(t testing.TB, cfg *client.Config) {
	switch os.Getenv(sealVariable) {
	case "mac":
		cfg.Seal.Algorithm, cfg.Seal.Keys = seal.MAC, testKeys(t)
	case "aead":
		cfg.Seal.Algorithm, cfg.Seal.Keys = seal.AEAD, testKeys(t)
	}
}

var keysOnce struct {
	sync.Once
	sealkeys.Keys
}

// testKeys are keys of a file, with the tenants of the tests.
func testKeys(t testing.TB) sealkeys.Keys {
	keysOnce.Do(func() {
		dir, err := os.MkdirTemp("", "seal")
		require.NoError(t, err)
		defer func() { _ = os.RemoveAll(dir) }()
		path := filepath.Join(dir, "keys.json")
		for _, tenant := range []string{"default", "a", "b"} {
			_, err := sealkeys.New(path, tenant, time.Now())
			require.NoError(t, err)
		}
		keysOnce.Keys, err = sealkeys.Open("file:"+path, sealkeys.Options{})
		require.NoError(t, err)
	})
	return keysOnce.Keys
}

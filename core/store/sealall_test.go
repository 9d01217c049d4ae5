package store_test

import (
	"os"
	"os/exec"
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
		for _, tenant := range []string{"default", "a", "b", "x", "y"} {
			_, err := sealkeys.New(path, tenant, time.Now())
			require.NoError(t, err)
		}
		keysOnce.Keys, err = sealkeys.Open("file:"+path, sealkeys.Options{})
		require.NoError(t, err)
	})
	return keysOnce.Keys
}

// unsealedOnly are tests that look at bytes, sizes, requests or checksums below a client, change a value during its put, or have
// writes in flight before a layer-wise put ends.
const unsealedOnly = "^(TestDamaged.*|TestHalfDamagedObjectStays|TestLongRead|TestMasterWithoutLeases|TestPutAndGet|TestBadInput|" +
	"TestFailedPutIsRevoked|TestHotPathCost|TestLayerCost|TestDamageIsNotCopied|TestLateWrites|TestARefusedPutFails|TestGuardsAfterRestarts|" +
	"TestIndeterminate.*|TestWriteStopsBeforeItsTime|TestLostLease|TestReplacedValue|TestIncompletePut|TestFailedWriteSpoilsItsObjectAlone|" +
	"TestEndWaitsForWrites|TestSpaceThatMayStillBeWritten|TestReadOverALapse|TestLayersAskTheMasterTwice|TestOwnSegment|TestClientsReportPeers|" +
	"TestWhoIsToBlame|TestRanges.*|TestASessionLearnsGrains|TestCopiesKeepGrains|TestReadUnderLeaseOutlivesTheMaster|TestReadsLeaveASilentNode|" +
	"TestMachineSleepsInRead|TestReadsFromTiers|TestManyObjectsFromTiers|TestTiersThat.*|TestStagedBytes.*|TestWrongBytesOfTiers|" +
	"TestClientsWithoutTiers|TestReadTimeoutBoundsStage|TestHotCacheHoldsObjectsOfTiers|TestTiersAreFor.*|TestNextWaveIsStaged.*|" +
	"TestValueThatChanges|TestAGrant.*|TestWhatTheWriterMayNotRead|TestLargeObjectsFromTiers.*|TestNextStepIsStaged.*|TestWhyOfTiers|TestTier[^s].*|TestUnmountTiers|" +
	"TestHungDisk|TestMemoryGoesOnWhileADiskForgetsNothing|TestNothingIsConfirmedThatMayReturn|TestStopSavesTheRest|" +
	"TestWritesEndBeforeTheirMemoryIsUsedAgain|TestACrashedClientHoldsMemoryForAMinute|TestSuiteWithSeals)$"

// TestSuiteWithSeals runs the other tests of this package, simulations included, with clients that seal.
func TestSuiteWithSeals(t *testing.T) {
	if os.Getenv("MOONCAKE_TEST_SEALS") == "" {
		t.Skip("takes long; make test-seals runs it")
	}
	for _, mode := range []string{"mac", "aead"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.skip", unsealedOnly, "-test.timeout", "30m")
		cmd.Env = append(os.Environ(), sealVariable+"="+mode)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", mode, out)
	}
}

package convert

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
	nodev1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/node/v1"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// TestStageRefusesWhatCannotBeRead: a request that no client of ours sends ends in InvalidParams.
func TestStageRefusesWhatCannotBeRead(t *testing.T) {
	good := []model.StageRead{{Segment: model.UUID{Hi: 1}, Replica: 7, Size: 10, Offset: 4, Length: 6}, {Replica: 8, Size: 1, Length: 1}}
	reads, err := FromStage(ToStage(good))
	require.NoError(t, err)
	require.Equal(t, good, reads)
	for name, spoil := range map[string]func(*nodev1.StageRequest){
		"nothing":             func(m *nodev1.StageRequest) { m.Reset() },
		"too much":            func(m *nodev1.StageRequest) { m.Reset(); proto.Merge(m, ToStage(slices.Repeat(good, 513))) },
		"a short column":      func(m *nodev1.StageRequest) { m.Lengths = m.Lengths[:1] },
		"an unknown tier":     func(m *nodev1.StageRequest) { m.Tier[1] = 2 },
		"no bytes":            func(m *nodev1.StageRequest) { m.Lengths[0] = 0 },
		"beyond the object":   func(m *nodev1.StageRequest) { m.Offsets[0] = 5 },
		"beyond the numbers":  func(m *nodev1.StageRequest) { m.Offsets[0] = math.MaxUint64 - 2 },
		"more than there are": func(m *nodev1.StageRequest) { m.Lengths[0], m.Offsets[0] = math.MaxUint64, 0 },
	} {
		m := ToStage(good)
		spoil(m)
		_, err := FromStage(m)
		require.Equal(t, errs.InvalidParams, errs.CodeOf(err), name)
	}
}

// TestStagingHasToFit: an answer that does not fit the reads is refused, so that no reader reads beyond what was staged.
func TestStagingHasToFit(t *testing.T) {
	reads := []model.StageRead{{Size: 10, Length: 6}, {Size: 10, Length: 10}}
	staged := model.Staging{ID: 3, TTL: 1500 * time.Microsecond, Parts: []model.Result[model.Part]{
		{Err: errs.New(errs.ObjectNotFound, "tier", "gone")}, {Value: model.Part{Endpoint: "n:1", Address: 1 << 63, Size: 10}},
	}}
	got, err := FromStaging(reads, ToStaging(staged))
	require.NoError(t, err)
	require.Equal(t, errs.ObjectNotFound, errs.CodeOf(got.Parts[0].Err))
	got.Parts[0].Err = staged.Parts[0].Err
	require.Equal(t, staged, got)
	for name, spoil := range map[string]func(*nodev1.StageResponse){
		"nothing":              func(m *nodev1.StageResponse) { m.Reset() },
		"a short column":       func(m *nodev1.StageResponse) { m.Addresses = m.Addresses[:1] },
		"fewer bytes":          func(m *nodev1.StageResponse) { m.Sizes[1] = 9 },
		"more bytes":           func(m *nodev1.StageResponse) { m.Sizes[1] = 11 },
		"an unknown endpoint":  func(m *nodev1.StageResponse) { m.Endpoint[1] = 1 },
		"beyond the addresses": func(m *nodev1.StageResponse) { m.Addresses[1] = math.MaxUint64 - 3 },
		"an error of nothing":  func(m *nodev1.StageResponse) { m.Errors = append(m.Errors, &masterv1.ItemError{Index: 2}) },
		"a long endpoint":      func(m *nodev1.StageResponse) { m.Endpoints[0] = string(make([]byte, 2000)) },
	} {
		m := ToStaging(staged)
		spoil(m)
		_, err := FromStaging(reads, m)
		require.Equal(t, errs.DeserializeFail, errs.CodeOf(err), name)
	}
}

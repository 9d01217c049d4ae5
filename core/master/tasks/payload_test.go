package tasks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestPayloadsLookAsDocumented(t *testing.T) {
	for want, spec := range map[string]model.TaskSpec{
		`{"tenant_id":"default","key":"k","source":"","targets":["b:1","c:1"]}`: {Key: "k", Targets: []string{"b:1", "c:1"}},
		`{"tenant_id":"t","key":"<k>","source":"a:1","target":"b:1"}`: {
			Kind: model.MoveObject, Tenant: "t", Key: "<k>", Source: "a:1", Targets: []string{"b:1"}},
	} {
		got, err := EncodePayload(spec)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	got, err := DecodePayload(model.CopyObject, []byte(`{"key":"k","targets":["b"],"dynamic_epoch":3}`))
	require.NoError(t, err)
	require.Equal(t, model.TaskSpec{Tenant: "default", Key: "k", Targets: []string{"b"}}, got)
}

func TestBadPayloadsAreRefused(t *testing.T) {
	for _, bad := range []string{
		"", "null", "[]", "{}", `{"key":"k","target":"b"}`, `{"key":"k","targets":[]}`, `{"key":"k","targets":["b"],"target":"b"}`,
		`{"key":1,"targets":["b"]}`, `{"key":"k","targets":["b"]}x`, "{\"key\":\"\xff\",\"targets\":[\"b\"]}", `{"key":"","targets":["b"]}`,
		`{"key":"` + strings.Repeat("k", MaxPayload) + `","targets":["b"]}`,
	} {
		_, err := DecodePayload(model.CopyObject, []byte(bad))
		require.True(t, errs.Is(err, errs.DeserializeFail), "%.40q: %v", bad, err)
	}
	_, err := EncodePayload(model.TaskSpec{Key: "\xff", Targets: []string{"b"}})
	require.True(t, errs.Is(err, errs.SerializeUnsupported))
	_, err = EncodePayload(model.TaskSpec{Key: "k"})
	require.True(t, errs.Is(err, errs.InvalidParams))
}

func TestTheLargestTaskCanBeSent(t *testing.T) {
	spec := model.TaskSpec{Tenant: "t", Key: strings.Repeat("\x01", model.MaxKeySize)}
	for i := range MaxTargets {
		spec.Targets = append(spec.Targets, strings.Repeat("\x01", maxName-2)+string(rune('0'+i%64))+string(rune('0'+i/64)))
	}
	data, err := EncodePayload(spec)
	require.NoError(t, err)
	got, err := DecodePayload(model.CopyObject, data)
	require.NoError(t, err)
	require.Equal(t, spec, got)
}

func FuzzPayload(f *testing.F) {
	f.Add(false, []byte(`{"tenant_id":"t","key":"k","source":"a","targets":["b","c"]}`))
	f.Add(true, []byte(`{"key":"k\u0000\ud800","source":"a","target":"b"}`))
	f.Fuzz(func(t *testing.T, isMove bool, data []byte) {
		kind := model.CopyObject
		if isMove {
			kind = model.MoveObject
		}
		spec, err := DecodePayload(kind, data)
		if err != nil {
			require.True(t, errs.Is(err, errs.DeserializeFail))
			return
		}
		again, err := EncodePayload(spec)
		require.NoError(t, err)
		back, err := DecodePayload(kind, again)
		require.NoError(t, err)
		require.Equal(t, spec, back)
	})
}

package mastercodec

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// TestSameAsProto: of any message the bytes are those of package proto, and are read as it
// reads them. What they were read from may be used for something else.
func TestSameAsProto(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := random(t, rapid.SampledFrom(kinds()).Draw(t, "kind"), true)
		want, err := proto.Marshal(m)
		require.NoError(t, err)
		got, err := Codec{}.Append([]byte("before"), m)
		require.NoError(t, err)
		require.Equal(t, append([]byte("before"), want...), got)
		readsTheSame(t, want, m)
	})
}

func readsTheSame(t require.TestingT, b []byte, kind proto.Message) {
	want, got := fresh(kind), fresh(kind)
	wantErr := proto.Unmarshal(b, want)
	buffer := slices.Clone(b)
	gotErr := Codec{}.Decode(buffer, got)
	for i := range buffer {
		buffer[i] = 0xDB
	}
	if wantErr != nil {
		require.Error(t, gotErr)
		return
	}
	require.NoError(t, gotErr)
	if !proto.Equal(want, got) {
		require.Equal(t, fmt.Sprint(want), fmt.Sprint(got))
		require.Fail(t, "they differ")
	}
}

// TestMessagesAreReadIntoAgain: what a message held before is not to be seen in it, and what it
// was read from may be used for something else, also where places are shared.
func TestMessagesAreReadIntoAgain(t *testing.T) {
	for _, kind := range columns {
		rapid.Check(t, func(t *rapid.T) {
			c, got := Codec{Places: &Places{}}, fresh(kind)
			for range 4 {
				m := random(t, kind, true)
				b, err := proto.Marshal(m)
				require.NoError(t, err)
				require.NoError(t, c.Decode(b, got))
				for i := range b {
					b[i] = 0xDB
				}
				if !proto.Equal(m, got) {
					require.Equal(t, fmt.Sprint(m), fmt.Sprint(got))
					require.Fail(t, "they differ")
				}
			}
		})
	}
}

// TestPlacesAreBounded: a master that names ever new ones takes no more memory.
func TestPlacesAreBounded(t *testing.T) {
	p := &Places{}
	for i := range 3 * maxPlaces {
		m := &masterv1.Replicas{Places: []*masterv1.Place{{Name: fmt.Sprint(i)}}}
		b, err := proto.Marshal(&masterv1.PutStartResponse{Replicas: m})
		require.NoError(t, err)
		got := &masterv1.PutStartResponse{}
		require.NoError(t, Codec{Places: p}.Decode(b, got))
		require.Equal(t, fmt.Sprint(i), got.GetReplicas().GetPlaces()[0].GetName())
		require.LessOrEqual(t, len(p.known), maxPlaces)
	}
}

// TestColumnsAreReadHere: what a peer of this release sends is not left to package proto.
func TestColumnsAreReadHere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := random(t, rapid.SampledFrom(columns).Draw(t, "kind"), false)
		switch m := m.(type) { // Errors are rare.
		case *masterv1.PutEndResponse:
			m.Errors = nil
		case *masterv1.RemoveResponse:
			m.Errors = nil
		}
		b, err := proto.Marshal(m)
		require.NoError(t, err)
		require.True(t, layoutOf(m).read(Codec{}, b, fresh(m)), "%T", m)
	})
}

// TestWhatIsLeftToProto: encodings that the format allows and no writer of ours uses, and
// bytes that are no message.
func TestWhatIsLeftToProto(t *testing.T) {
	long := func(tag byte) []byte { return []byte{tag | 0x80, 0x80, 0} } // a tag in three bytes
	caller := protowire.AppendBytes([]byte{block2}, []byte{1<<3 | 2, 0, 2<<3 | 2, 1, 'x'})
	for name, c := range map[string]struct {
		kind proto.Message
		b    []byte
	}{
		"a column entry by entry":         {&masterv1.PutEndRequest{}, []byte{3 << 3, 1, 3 << 3, 2}},
		"a column in pieces":              {&masterv1.PutEndRequest{}, []byte{block3, 2, 1, 2, block3, 1, 3, 3 << 3, 4}},
		"keys in pieces":                  {&masterv1.PutEndRequest{}, []byte{block2, 1, 'a', block3, 1, 1, block2, 1, 'b', block2, 0}},
		"bools that are numbers":          {&masterv1.ExistResponse{}, []byte{block1, 3, 0, 0x80, 1}},
		"a bool that is a number":         {&masterv1.RemoveRequest{}, []byte{varint2, 0x80, 1}},
		"a bool of two":                   {&masterv1.RemoveRequest{}, []byte{varint2, 2}},
		"a narrow number with more":       {&masterv1.PutEndRequest{}, []byte{block3, 5, 0xff, 0xff, 0xff, 0xff, 0x7f}},
		"a long tag":                      {&masterv1.ExistRequest{}, append(long(byte(block1)), 1, 'k')},
		"a caller twice":                  {&masterv1.ExistRequest{}, append(slices.Clone(caller), caller...)},
		"a column of another type":        {&masterv1.PutEndRequest{}, []byte{block3, 1, 0x80}},
		"fixed numbers cut off":           {&masterv1.PutEndRequest{}, []byte{block4, 7, 1, 2, 3, 4, 5, 6, 7}},
		"narrow fixed numbers cut off":    {&masterv1.PutEndRequest{}, []byte{7<<3 | 2, 3, 1, 2, 3}},
		"narrow fixed numbers one by one": {&masterv1.PutEndRequest{}, []byte{7<<3 | 5, 1, 2, 3, 4, 7<<3 | 2, 4, 1, 2, 3, 4}},
		"a field without its content":     {&masterv1.ExistRequest{}, []byte{block1}},
		"a second key that is cut off":    {&masterv1.ExistRequest{}, []byte{block1, 1, 'a', block1, 9, 'b'}},
		"a group that is no text":         {&masterv1.PutStartRequest{}, []byte{block5, 1, 0xff}},
		"a tenant that is no text":        {&masterv1.ExistRequest{}, []byte{block2, 3, block2, 1, 0xff}},
		"a replica column of half":        {&masterv1.PutStartResponse{}, []byte{block1, 3, block5, 1, 0}},
		"replicas in two messages":        {&masterv1.PutStartResponse{}, []byte{block1, 3, block2, 1, 1, block1, 3, block2, 1, 2}},
		"replicas with an unknown":        {&masterv1.PutStartResponse{}, []byte{block1, 3, 15<<3 | 2, 1, 1}},
		"a number of eleven bytes":        {&masterv1.PutEndRequest{}, append([]byte{block5, 11}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1)},
		"a length beyond all":             {&masterv1.ExistRequest{}, []byte{block1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}},
		"an answer that is not an item":   {&masterv1.ExistResponse{}, []byte{block2, 1, 0xff}},
		"the end of a group":              {&masterv1.ExistRequest{}, []byte{1<<3 | 4}},
	} {
		t.Run(name, func(t *testing.T) { readsTheSame(t, c.b, c.kind) })
	}
}

// TestAppendRefuses: texts that are not UTF-8 would not be read.
func TestAppendRefuses(t *testing.T) {
	for _, m := range []proto.Message{
		&masterv1.PutStartRequest{Groups: []string{"\xff"}},
		&masterv1.PutStartRequest{Config: &masterv1.ReplicateConfig{HostId: "\xff"}},
		&masterv1.ExistRequest{Caller: &masterv1.Caller{Tenant: "\xff"}},
		&masterv1.RemoveRequest{Caller: &masterv1.Caller{Tenant: "\xff"}},
		&masterv1.PutEndRequest{Caller: &masterv1.Caller{Tenant: "\xff"}},
		&masterv1.PutStartResponse{Replicas: &masterv1.Replicas{Places: []*masterv1.Place{{Name: "\xff"}}}},
	} {
		_, err := proto.Marshal(m)
		require.Error(t, err)
		b, err := Codec{}.Append(make([]byte, 0, 100), m)
		assert.Error(t, err, "%T", m)
		assert.Empty(t, b)
	}
}

// TestDecodeReplaces: what was in the message before is gone.
func TestDecodeReplaces(t *testing.T) {
	m := &masterv1.ExistRequest{Keys: [][]byte{{1}}, Caller: &masterv1.Caller{Tenant: "t"}}
	require.NoError(t, Codec{}.Decode([]byte{block1, 1, 'k'}, m))
	assert.True(t, proto.Equal(&masterv1.ExistRequest{Keys: [][]byte{{'k'}}}, m), "%v", m)
}

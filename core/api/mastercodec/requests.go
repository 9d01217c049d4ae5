package mastercodec

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	masterv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/master/v1"
)

// The tags of fields 1 to 7 with a length, and of field 2 with a varint.
const (
	block1 = 1<<3 | byte(protowire.BytesType)
	block2 = 2<<3 | byte(protowire.BytesType)
	block3 = 3<<3 | byte(protowire.BytesType)
	block4 = 4<<3 | byte(protowire.BytesType)
	block5 = 5<<3 | byte(protowire.BytesType)
	block6 = 6<<3 | byte(protowire.BytesType)
	block7 = 7<<3 | byte(protowire.BytesType)

	varint2 = 2<<3 | byte(protowire.VarintType)
)

// appendKeysRequest appends a request of keys and a caller alone.
func appendKeysRequest(b []byte, keys [][]byte, caller *masterv1.Caller) ([]byte, error) {
	return appendMessage(appendKeys(b, 1, keys), 2, caller)
}

func readKeysRequest(b []byte, keys *[][]byte, caller **masterv1.Caller) bool {
	return fields(b, func(tag byte, b []byte) []byte {
		switch tag {
		case block1:
			return readKeys(keys, b, block1, false)
		case block2:
			return readMessage(caller, b)
		}
		return nil
	})
}

func appendRemoveRequest(b []byte, m *masterv1.RemoveRequest) ([]byte, error) {
	b = appendKeys(b, 1, m.GetKeys())
	if m.GetForce() {
		b = append(b, varint2, 1)
	}
	return appendMessage(b, 3, m.GetCaller())
}

func readRemoveRequest(b []byte, m *masterv1.RemoveRequest) bool {
	return fields(b, func(tag byte, b []byte) []byte {
		switch tag {
		case block1:
			return readKeys(&m.Keys, b, block1, false)
		case varint2:
			return readBool(&m.Force, b)
		case block3:
			return readMessage(&m.Caller, b)
		}
		return nil
	})
}

func appendPutStartRequest(b []byte, m *masterv1.PutStartRequest) ([]byte, error) {
	b, err := appendMessage(b, 1, m.GetCaller())
	if err != nil {
		return nil, err
	}
	b = appendVarints(appendKeys(b, 2, m.GetKeys()), 3, m.GetSizes())
	if b, err = appendMessage(b, 4, m.GetConfig()); err != nil {
		return nil, err
	}
	return appendTexts(b, 5, m.GetGroups())
}

func readPutStartRequest(b []byte, m *masterv1.PutStartRequest) bool {
	return fields(b, func(tag byte, b []byte) []byte {
		switch tag {
		case block1:
			return readMessage(&m.Caller, b)
		case block2:
			return readKeys(&m.Keys, b, block2, true)
		case block3:
			return readVarints(&m.Sizes, b)
		case block4:
			return readMessage(&m.Config, b)
		case block5:
			return readText(&m.Groups, b)
		}
		return nil
	})
}

func appendPutEndRequest(b []byte, m *masterv1.PutEndRequest) ([]byte, error) {
	b, err := appendMessage(b, 1, m.GetCaller())
	if err != nil {
		return nil, err
	}
	b = appendVarints(appendKeys(b, 2, m.GetKeys()), 3, m.GetChecksumKinds())
	return appendVarints(appendFixed(b, 4, m.GetChecksums()), 5, m.GetPuts()), nil
}

func readPutEndRequest(b []byte, m *masterv1.PutEndRequest) bool {
	return fields(b, func(tag byte, b []byte) []byte {
		switch tag {
		case block1:
			return readMessage(&m.Caller, b)
		case block2:
			return readKeys(&m.Keys, b, block2, false)
		case block3:
			return readVarints(&m.ChecksumKinds, b)
		case block4:
			return readFixed(&m.Checksums, b)
		case block5:
			return readVarints(&m.Puts, b)
		}
		return nil
	})
}

func appendTexts(b []byte, field protowire.Number, list []string) ([]byte, error) {
	for _, s := range list {
		if !utf8.ValidString(s) {
			return nil, errNotText
		}
		b = append(b, tag(field, protowire.BytesType))
		b = protowire.AppendVarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b, nil
}

// readText reads an entry of a list of texts.
func readText(dst *[]string, b []byte) []byte {
	content, rest := block(b)
	if rest == nil || !utf8.Valid(content) {
		return nil
	}
	*dst = append(*dst, string(content))
	return rest
}

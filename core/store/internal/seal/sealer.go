package seal

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/mooncake-go/mooncake/core/sealkeys"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Sealer seals and opens the objects of one tenant. Safe for concurrent use.
type Sealer struct {
	algorithm Algorithm
	keys      sealkeys.Keys
	tenant    string
}

// New makes a sealer, which seals with an algorithm and opens what either has sealed.
func New(a Algorithm, keys sealkeys.Keys, tenant string) *Sealer {
	return &Sealer{algorithm: a, keys: keys, tenant: tenant}
}

// Encrypts reports whether the body of what the sealer seals differs from the value.
func (s *Sealer) Encrypts() bool { return s.algorithm == AEAD }

// Current returns the key to seal with.
func (s *Sealer) Current(ctx context.Context) (sealkeys.Key, error) {
	k, err := s.keys.Current(ctx, s.tenant)
	if err == nil && (len(k.ID) == 0 || len(k.ID) > maxID) {
		err = errs.New(errs.InvalidParams, "", "the ID of a key has %d bytes, must be 1 to %d", len(k.ID), maxID)
	}
	return k, errs.Wrap(errs.CodeOf(err), "seal: the current key of tenant "+s.tenant, err)
}

// Seal adds to w that a value, whose fragments are all of it in order, is sealed under a key. The tags go to trailer, which has
// TrailerSize bytes, and with AEAD the ciphertext to body, which may be the memory of the value itself if that is contiguous.
func (s *Sealer) Seal(w *Work, k *sealkeys.Key, object string, value []store.Fragment, body, trailer []byte) error {
	size := uint64(0)
	for _, f := range value {
		size += uint64(len(f.Mem))
	}
	h := header{algorithm: s.algorithm, size: size, id: k.ID}
	_, _ = rand.Read(h.salt[:]) // It never fails.
	clear(trailer[headerSize:])
	h.put(trailer)
	o, err := s.of(k, object, &h, trailer)
	if err != nil {
		return err
	}
	o.sealing, o.body = true, body
	return w.add(o, value)
}

// Open adds to w that fragments of an object, which are runs of whole chunks of its value, are verified and, with
// AEAD, decrypted where they lie. The result has the outcome once the work is done. An error has the code ChecksumMismatch
// if the object is not what was put, or cannot be told from that, and another if the key could not be had.
func (s *Sealer) Open(ctx context.Context, w *Work, object string, size uint64, body []store.Fragment, trailer []byte) (*Object, error) {
	h, err := parse(trailer, size)
	if err != nil {
		return nil, err
	}
	k, err := s.keys.Find(ctx, s.tenant, h.id)
	if errors.Is(err, sealkeys.ErrUnknown) {
		return nil, errs.WithHint(errs.New(errs.ChecksumMismatch, "", "the object is sealed with the key %q, which tenant %s does not have", h.id, s.tenant),
			"the key was dropped, or is not in security.seal_keys of this process yet; if it never was, the object is forged")
	}
	if err != nil {
		return nil, errs.Wrap(errs.CodeOf(err), "the key of a sealed object", err)
	}
	o, err := s.of(&k, object, &h, trailer)
	if err == nil {
		err = w.add(o, body)
	}
	return o, err
}

// of makes the cipher of an object. Its key is derived from all that must not be exchanged: header, tenant and key of
// the object. Since the salt is random, no two objects have the same key, and the index of a chunk is a good nonce.
func (s *Sealer) of(k *sealkeys.Key, object string, h *header, trailer []byte) (*Object, error) {
	info := make([]byte, 0, 64+headerSize+len(s.tenant)+len(object))
	info = append(info, "mooncake sealed object"...)
	info = append(info, trailer[:headerSize]...)
	info = binary.LittleEndian.AppendUint32(info, uint32(len(s.tenant)))
	info = append(append(info, s.tenant...), object...)
	secret, err := hkdf.Key(sha256.New, k.Secret[:], h.salt[:], string(info), 32)
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "seal: derive a key", err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "seal: make a cipher", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, errs.Wrap(errs.Internal, "seal: make a cipher", err)
	}
	return &Object{aead: aead, algorithm: h.algorithm, size: h.size, chunk: ChunkSize(h.size), tags: trailer[headerSize:]}, nil
}

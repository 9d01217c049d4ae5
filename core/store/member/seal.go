package member

import "github.com/mooncake-go/mooncake/core/sealkeys"

// openKeys opens the keys of a client that seals objects.
func (m *Member) openKeys() (err error) {
	if !m.seal.Seals() {
		return nil
	}
	m.keys, err = sealkeys.Open(m.seal.SealKeys, sealkeys.Options{
		TokenFile: m.seal.SealVaultToken, CAFile: m.seal.SealVaultCA, Period: m.seal.SealPeriod,
		Warn: func(message string, err error) { m.log.Warn(message, "error", err) },
	})
	return err
}

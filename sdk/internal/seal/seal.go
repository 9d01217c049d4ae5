// Package seal keeps factory interfaces closed: only packages below sdk can name
// Token, so only the Define function of a plugin kind can produce a factory. That
// lets a contract grow methods without breaking the authors of plugins.
package seal

// Token is the result type of the sealing method of plugin.Factory.
type Token struct{}

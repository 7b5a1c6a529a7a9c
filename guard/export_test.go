package guard

// HashedName is the name under which a key is stored with [WithHashedKeys].
func HashedName(operation, name string) string {
	return (*keyHasher)(nil).hashed(Key{operation, name}).Name
}

// Canonical is the form of an input that is digested for its fingerprint.
func Canonical(input any) ([]byte, error) { return canonical(input) }

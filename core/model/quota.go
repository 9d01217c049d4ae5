package model

// TenantQuota is what a tenant may use and uses.
type TenantQuota struct {
	Tenant Tenant
	// Requested is what the policy says, Effective what the capacity allows of it, Charged
	// what the tenant's objects occupy, all in bytes.
	Requested, Effective, Charged uint64
	// AdmissionClosed is true when the tenant has objects and may write no more: it was
	// taken out of the policy.
	AdmissionClosed bool
	// OverQuota is true when Charged exceeds Effective.
	OverQuota bool
	// ExplicitPolicy is false for a tenant that is known only by its objects.
	ExplicitPolicy bool
}

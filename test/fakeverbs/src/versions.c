// Older and newer interfaces under names that are in use, as real libraries have them: a program
// that picks one up by mistake gets nonsense from it.
#include <stdlib.h>

#define OTHER(name)                                                                                \
	void older_##name(void) { abort(); }                                                       \
	void newer_##name(void) { abort(); }                                                       \
	__asm__(".symver older_" #name ", ibv_" #name "@IBVERBS_1.0");                             \
	__asm__(".symver newer_" #name ", ibv_" #name "@@IBVERBS_99")

OTHER(query_port);
OTHER(create_qp);
OTHER(create_cq);
OTHER(reg_mr);
OTHER(open_device);

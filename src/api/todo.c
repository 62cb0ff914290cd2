#include "api/handlers.h"
void vial_api_port_proxy(VialRequest *r){ vial_request_reply_fail(r, VIAL_ERROR_UNAVAILABLE, "not yet"); }
void vial_api_pty(VialRequest *r){ vial_request_reply_fail(r, VIAL_ERROR_UNAVAILABLE, "not yet"); }
void vial_api_logs(VialRequest *r){ vial_request_reply_fail(r, VIAL_ERROR_UNAVAILABLE, "not yet"); }

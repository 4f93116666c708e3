//! The Auth service: authentication is by client certificates, so etcd's users and roles are not enabled.

use super::errors::{AUTH_NOT_ENABLED, plain};
use crate::proto::etcd::auth_server::Auth;
use crate::proto::etcd::{AuthStatusResponse, Skipped};
use tonic::{Request, Response, Status};

#[derive(Clone, Copy)]
pub struct NotEnabled;

macro_rules! not_enabled {
    ($($method:ident),*) => {
        #[tonic::async_trait]
        impl Auth for NotEnabled {
            async fn auth_status(&self, _: Request<Skipped>) -> Result<Response<AuthStatusResponse>, Status> {
                Ok(Response::new(AuthStatusResponse::default()))
            }
            $(async fn $method(&self, _: Request<Skipped>) -> Result<Response<Skipped>, Status> {
                Err(plain(AUTH_NOT_ENABLED))
            })*
        }
    };
}

not_enabled!(
    auth_enable,
    auth_disable,
    authenticate,
    user_add,
    user_get,
    user_list,
    user_delete,
    user_change_password,
    user_grant_role,
    user_revoke_role,
    role_add,
    role_get,
    role_list,
    role_delete,
    role_grant_permission,
    role_revoke_permission
);
